"""The Kafka clients: takes settings, gives records in order and writes dead letters. The learner
imports it.
"""
