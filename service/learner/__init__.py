"""The learning process: takes decoded batches, moves the model, writes checkpoints and snapshots.
`processes` imports it.
"""
