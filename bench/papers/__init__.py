"""Published tables, run again with Kaboost: `python -m bench.papers NAME --data FOLDER`.

Every module of a table has `TITLE`, `SCALES`, `plan` (its cells), `measure` (one cell) and `page`
(what is printed, and written to docs/experiments). Nothing here is part of the product.
"""
