"""The bank of linear learners: one file with the bank, one for each step that moves its weights.
The list of banks imports it.
"""
