"""Why a score is what it is: takes a booster and rows, gives contributions by feature. The model
imports it.
"""
