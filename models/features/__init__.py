"""From named features and labels to arrays: takes rows or tables of an event stream, gives X (B, d)
and y (B,). The model and the event decoder import it.
"""
