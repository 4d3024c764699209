"""Rules: from weak predictions to targets; one paper, one file."""
