"""The processes of the service: takes settings, starts learner and API workers and restarts those
that die. The command line imports it.
"""
