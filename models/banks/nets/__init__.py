"""Nets as weak learners: the banks `nets` and `conv`, and the random weights that both start from.

The list of banks imports both.
"""
