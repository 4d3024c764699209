"""The default model: takes columns as they are and labels, gives scores of trees that are rebuilt
in boosting order, stacked and calibrated. `parts` and `model` import it.
"""
