"""From bytes to typed columns: takes records, gives a table, labels, weights and faults. The
learner and the HTTP API import it.
"""
