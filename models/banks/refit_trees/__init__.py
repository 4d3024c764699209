"""The bank `refit_trees`: CART, fitted again to the last pairs every few events.

The list of banks imports it.
"""
