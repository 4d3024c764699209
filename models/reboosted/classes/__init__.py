"""Reboosted trees of several classes as one model: one structure of trees, a value per class at
every leaf.
"""
