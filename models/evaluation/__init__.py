"""How well a model predicts: takes predictions and labels, gives running losses, edges, baselines,
reliability and intervals. The boosters, the model and the service import it.
"""
