"""Explanations of scores: takes a booster and rows, gives contributions by feature. The model
imports it.
"""
