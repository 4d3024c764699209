"""The HTTP API: takes requests, gives answers from the newest snapshot. `processes` imports it."""
