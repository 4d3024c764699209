"""The bank `refit_trees`: takes features and targets, gives predictions of CART trees that are
fitted again to the last pairs every few events. The list of banks imports it.
"""
