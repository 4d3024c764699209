"""Compare two checkpoints: what the headers say, and which arrays of which part have changed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kaboost.service.listings import Row, read_checkpoint

Arrays = Mapping[str, NDArray[Any]]
COUNTED = ("offsets", "events_learned", "sequence", "version")  # whose difference is shown


def diff_rows(before: Path, after: Path) -> list[Row]:
    """List what differs: fields of the header, then the arrays, under a line for each part."""
    (old_header, old_arrays), (new_header, new_arrays) = map(read_checkpoint, (before, after))
    rows = list(_header_rows("", old_header, new_header))
    rows += _array_rows(old_arrays, new_arrays)
    return [{"key": key, "before": old, "after": new, "change": how} for key, old, new, how in rows]


def _header_rows(name: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield the leaves of two headers that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            below = f"{name}.{key}".lstrip(".")
            yield from _header_rows(below, old.get(key), new.get(key))
    elif old != new:
        yield name, old, new, _change(name, old, new)


def _change(name: str, old: Any, new: Any) -> str:
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (old, new))
    return f"{new - old:+}" if numbers and name.split(".")[0] in COUNTED else ""


def _array_rows(old: Arrays, new: Arrays) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield a line for each part (the first word of a name) and one for each array that differs."""
    parts: dict[str, list[str]] = {}
    for name in sorted({*old, *new}):
        parts.setdefault(name.split(".")[0], []).append(name)
    for part, names in parts.items():
        changed = [name for name in names if not _equal(old.get(name), new.get(name))]
        before, after = (
            f"{sum(arrays[name].nbytes for name in names if name in arrays)} bytes"
            for arrays in (old, new)
        )
        yield f"[{part}]", before, after, f"{len(changed)} of {len(names)} arrays differ"
        for name in changed:
            yield name, _kind(old.get(name)), _kind(new.get(name)), _array_change(old, new, name)


def _equal(old: NDArray[Any] | None, new: NDArray[Any] | None) -> bool:
    if old is None or new is None or old.dtype != new.dtype or old.shape != new.shape:
        return False
    return old.tobytes() == new.tobytes()  # NaN is itself here


def _kind(array: NDArray[Any] | None) -> str:
    return "" if array is None else f"{array.dtype} {list(array.shape)}"


def _array_change(old: Arrays, new: Arrays, name: str) -> str:
    if name not in old or name not in new:
        return "removed" if name in old else "added"
    a, b = old[name], new[name]
    if a.dtype != b.dtype or a.shape != b.shape:
        return "another size"
    if a.dtype.kind != "f":
        return f"{int(np.sum(a != b))} of {a.size} values"
    differs = (a != b) & ~(np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.abs(b[differs].astype(float) - a[differs].astype(float)).max(initial=0.0)
    return f"{int(differs.sum())} of {a.size} values, by up to {largest:.3g}"
