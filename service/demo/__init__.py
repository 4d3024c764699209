"""`kaboost demo`, with the event producer and the mock broker that it starts as processes.

It takes the installed data set and runs the real commands; only the command line imports it.
"""
