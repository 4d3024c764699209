"""Online boosting as arithmetic: takes arrays or named features and labels, gives scores and a
state of plain arrays. `kaboost.service` and users import it; it knows no Kafka, HTTP, clock or log.
"""
