"""Data sets shipped with the package; README.md has their origin and licence."""
