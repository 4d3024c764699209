"""Serve a River model, which has no arrays and so no files: takes records, and shows the moving
model to the requests of the same process. A plug-in: only the roles of `processes` import it.
"""
