"""The learning process: takes records, moves the model, writes checkpoints and snapshots.
`processes` imports it, and `river`, which brings a trainer and a startup of its own.
"""
