"""The Kafka clients: take settings, give records in order, write dead letters. The learner imports
it.
"""
