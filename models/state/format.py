"""The file format: arrays and a JSON header to bytes and back, with a digest over all bytes."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from kaboost.models.state import migrations
from kaboost.models.types import ModelError

KEY = "kaboost"  # the only metadata key: the order of several would vary between runs
NAME = re.compile(r"(?!__metadata__$)[\w.-]+")  # of an array
UNSIGNED = "0" * 64
# The header is JSON in a JSON string: its quotes arrive escaped.
DIGEST = re.compile(rb'\\"sha256\\":\\"([0-9a-f]{64})\\"')
PREFIX = 8  # bytes: length of the JSON that follows, little-endian
TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "I64": "<i8",
    "I32": "<i4",
    "U64": "<u8",
    "U8": "|u1",
    "BOOL": "|b1",
}

Arrays = dict[str, NDArray[Any]]


class FormatError(ModelError):
    """Bytes that are not a complete, undamaged file of this format, or state it cannot hold."""


class OtherFormat(FormatError):
    """A file of a version that this program cannot read; it is not damaged."""


def pack(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> bytes:
    """Return the file of these arrays; the same input gives the same bytes.

    Parameters
    ----------
    arrays
        C-contiguous arrays of numbers or booleans, by name.
    header
        Plain JSON values.

    Raises
    ------
    FormatError
        For an array or a header that the format cannot hold.

    Examples
    --------
    >>> unpack(pack({"w": np.ones(2)}, {"kind": "example"}))
    ({'kind': 'example'}, {'w': array([1., 1.])})
    """
    for name, array in arrays.items():
        _check_array(name, array)
    blob = bytearray(save(dict(arrays), {KEY: _write_header(header)}))
    place = _find_digest(blob).span(1)
    blob[slice(*place)] = _digest(blob, place).encode()
    return bytes(blob)


def unpack(
    buffer: bytes | memoryview | mmap.mmap, *, verify: bool = True
) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file; arrays are read-only views into the buffer.

    Parameters
    ----------
    buffer
        The whole file; the arrays keep it alive.
    verify
        Check the digest; otherwise only the structure is checked.

    Raises
    ------
    FormatError
        For anything but a complete, undamaged file of this version, or of one before it.
    """
    view = memoryview(buffer)
    digest = _find_digest(view)
    if verify and digest.group(1).decode() != _digest(view, digest.span(1)):
        raise FormatError(
            "file: damaged, its digest does not match; use the file before it or write it again"
        )
    try:
        index = json.loads(bytes(view[PREFIX : _data_start(view)]))
        metadata = json.loads(index.pop("__metadata__")[KEY])
        version = _check_version(metadata["format"])
        return migrations.migrate(version, metadata["header"], _read_arrays(view, index))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(
            f"file: its index cannot be read ({error}); use the file before it"
        ) from error


def _check_array(name: str, array: NDArray[Any]) -> None:
    if array.dtype.newbyteorder("<").str not in TYPES.values() or not array.dtype.isnative:
        raise FormatError(f"{name}: dtype {array.dtype} cannot be stored; take {', '.join(TYPES)}")
    if not NAME.fullmatch(name):
        raise FormatError(
            f"{name!r}: is not a name of an array; take letters, digits, _, - and dots"
        )
    if not array.flags.c_contiguous:  # safetensors would scramble it silently
        raise FormatError(f"{name}: is not C-contiguous; pass np.ascontiguousarray of it")


def _write_header(header: Mapping[str, Any]) -> str:
    full = {"format": migrations.FORMAT, "header": dict(header), "sha256": UNSIGNED}
    try:
        return json.dumps(full, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FormatError(f"header: {error}; put plain, finite JSON values there") from error


def _find_digest(view: bytearray | memoryview) -> re.Match[bytes]:
    matches = list(DIGEST.finditer(view, PREFIX, _data_start(view)))
    if not matches:
        raise FormatError("file: not a Kaboost file, or its header is damaged; use the one before")
    return matches[-1]  # keys are sorted: a `sha256` inside the header comes before


def _data_start(view: bytearray | memoryview) -> int:
    """Return where the index ends and the data begins."""
    end = PREFIX + int.from_bytes(view[:PREFIX], "little")
    if len(view) < PREFIX or end > len(view):
        raise FormatError(
            f"file: {len(view)} bytes are not a complete Kaboost file; use the file before it"
        )
    return end


def _digest(view: bytearray | memoryview, span: tuple[int, int]) -> str:
    """Return the SHA-256 of the file with zeros in place of the digest."""
    whole = memoryview(view)
    digest = hashlib.sha256(whole[: span[0]])
    digest.update(UNSIGNED.encode())
    digest.update(whole[span[1] :])
    return digest.hexdigest()


def _check_version(version: object) -> int:
    known = migrations.FORMAT
    if not isinstance(version, int) or version < 1:
        raise FormatError(f"file: format {version!r} is none; use the file before it")
    if version > known:
        raise OtherFormat(
            f"file: format {version} is newer than {known}, the newest that this Kaboost reads; "
            "use the Kaboost that wrote it or a later one"
        )
    if not migrations.is_readable(version):
        raise OtherFormat(
            f"file: format {version} is too old, this Kaboost reads up to {known}; load and save "
            "it with a version between"
        )
    return version


def _read_arrays(view: memoryview, index: dict[str, Any]) -> Arrays:
    """Return views of the data; the index must cover it without gaps and to its end."""
    start = at = _data_start(view)
    arrays = {}
    for name, entry in sorted(index.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = (start + int(offset) for offset in entry["data_offsets"])
        dtype, shape = np.dtype(TYPES[entry["dtype"]]), tuple(entry["shape"])
        count = math.prod(shape)
        if begin != at or end - begin != count * dtype.itemsize:
            raise FormatError(f"file: {name!r} is not where the index says; use the file before it")
        arrays[name] = _view(view, dtype, count, begin).reshape(shape)
        at = end
    if at != len(view):
        raise FormatError(
            f"file: {len(view) - at} bytes too many at its end; use the file before it"
        )
    return arrays


def _view(view: memoryview, dtype: np.dtype[Any], count: int, begin: int) -> NDArray[Any]:
    # NumPy refuses a view at the end of a buffer, where empty arrays may be.
    array = np.frombuffer(view, dtype, count, begin) if count else np.empty(0, dtype)
    array.flags.writeable = False
    return array
