"""The Kaboost service: takes settings and records from Kafka, trains a model of `kaboost.models`,
serves it over HTTP and keeps it in files. Users start it by its commands; no library imports it.
"""
