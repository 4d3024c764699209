"""Banks: N weak learners of one kind as one struct of arrays."""
