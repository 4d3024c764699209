"""Trees that grow online from histograms: the banks `trees` (regression) and `hoeffding`
(classification), and what they share.

`binning.py` and `histograms.py` are shared; a bank has its state, its leaves, its growth and its
split test in files of its name. The list of banks imports both components.
"""
