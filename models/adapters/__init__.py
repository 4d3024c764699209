"""Adapters to other libraries: take a `Model` or a River model, give estimators of scikit-learn and
River, or a model that the service can train. `kaboost`, users and the service import it;
`import kaboost` loads none of these libraries.
"""
