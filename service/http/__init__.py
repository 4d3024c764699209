"""The HTTP API: takes requests, gives predictions and reports from the newest snapshot. `processes`
and `river` import it; a new route is one function in `routes.py`.
"""
