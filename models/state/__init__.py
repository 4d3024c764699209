"""The state as named arrays and as bytes: takes trees of NamedTuples, gives arrays and one file
format. The model and the service's storage import it.
"""
