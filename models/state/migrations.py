"""Migrations of files: from each version of the format to the next.

A file of an older version is read by applying, one after the other, the functions from its version
on. Each takes and returns the header and the arrays; these are read-only.

To change the format: increase `FORMAT`, and add the function from the old version here. The files
of tests/golden/ of that version stay, and a test reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

FORMAT = 1  # of the files that are written now

Content = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # header and arrays
Migration = Callable[[dict[str, Any], dict[str, NDArray[Any]]], Content]

MIGRATIONS: Mapping[int, Migration] = {}  # by the version that a function reads


def is_readable(version: int) -> bool:
    """Return whether files of a version can be read."""
    return version <= FORMAT and all(step in MIGRATIONS for step in range(version, FORMAT))


def migrate(version: int, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Content:
    """Return the content of a file of a readable version as the current one has it."""
    for step in range(version, FORMAT):
        header, arrays = MIGRATIONS[step](header, arrays)
    return header, arrays
