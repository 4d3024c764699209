"""Adapters to scikit-learn and River; importing `kaboost` loads none of these libraries."""
