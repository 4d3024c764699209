"""A saved model as a file: its arrays and its description."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaboost.models.state.format import Arrays, FormatError, pack, unpack
from kaboost.models.types import ModelError


def save(path: str | os.PathLike[str], arrays: Arrays, description: Mapping[str, Any]) -> None:
    """Write a model to a temporary file in the same folder and rename it to `path`.

    Raises
    ------
    ModelError
        When `path` is a folder or its folder does not exist.
    """
    target = Path(path)
    if target.is_dir():
        raise ModelError(f"{path}: is a folder; name a file in it")
    if not target.parent.is_dir():
        raise ModelError(f"{path}: the folder {target.parent} does not exist; make it first")
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.write_bytes(pack(arrays, {"kind": "model", "model": dict(description)}))
    temporary.replace(target)


def load(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Return the description of a saved model and its arrays, which may be written to.

    Raises
    ------
    FormatError
        For a file that is damaged or holds no model.
    """
    try:
        header, arrays = unpack(Path(path).read_bytes())
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    if "model" not in header:
        raise FormatError(f"{path}: holds no model; load a saved model, a snapshot or a checkpoint")
    return header["model"], {name: array.copy() for name, array in arrays.items()}
