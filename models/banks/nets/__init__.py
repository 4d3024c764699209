"""Nets as weak learners, the banks `nets` and `conv`: take features (`conv`: pictures) and targets,
give one prediction per learner. The list of banks imports both.
"""
