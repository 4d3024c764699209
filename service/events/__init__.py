"""Decode events: take the bytes of records, give columns, labels, weights and faults. The learner
and the HTTP API import it; a new event format is one file here with the methods of `Decoder`.
"""
