"""The trees of the default model: takes the window of events, gives trees that replace older ones.
Only `reboosted` imports it.
"""
