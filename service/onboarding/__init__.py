"""First steps with a topic: `kaboost init` writes a configuration from its records, `kaboost
doctor` checks one. It writes nothing but that file; the command line imports it.
"""
