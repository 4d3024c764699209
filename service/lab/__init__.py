"""The laboratory: replay recorded events through the code path of the learner, and measure; compare
and tune configurations on them. Only the command line and `kaboost.replay` import it.
"""
