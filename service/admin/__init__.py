"""Commands to a running learner: sent from the command line, and taken by an HTTP port.

It takes settings and the folder of the checkpoints; processes and the command line import it.
"""
