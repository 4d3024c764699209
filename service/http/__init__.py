"""The HTTP API: serves predictions and reports from the newest snapshot. `processes` imports it."""
