"""Linear weak learners: one bank (`bank.py`), and one file for every step that moves its weights.

A new step is a file next to `sgd.py` and a line in `component.py`. The list of banks and `build`
import from here.
"""
