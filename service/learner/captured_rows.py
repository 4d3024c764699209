"""Captured events as bytes and back: what waits for a label is stored row by row."""

import struct
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from kaboost.models.table_model import Captured

WIDTHS = struct.Struct("<4I")  # columns of features, codes, parts and scores


def pack(captured: Captured) -> list[bytes]:
    """Return every event as bytes: four widths, then float64 numbers."""
    head = WIDTHS.pack(*(part.shape[1] for part in captured))
    rows = np.concatenate([np.asarray(part, np.float64) for part in captured], axis=1)
    return [head + row.tobytes() for row in rows]


def unpack(rows: Sequence[bytes]) -> list[tuple[list[int], Captured]]:
    """Return captured events in their order, those of equal widths in a row as one group with the
    places of its rows.

    Widths differ between events before and after new features.
    """
    groups = groupby(range(len(rows)), lambda place: rows[place][: WIDTHS.size])
    runs = ((head, list(places)) for head, places in groups)
    return [(places, _together(head, [rows[k] for k in places])) for head, places in runs]


def _together(head: bytes, rows: Sequence[bytes]) -> Captured:
    widths = WIDTHS.unpack(head)
    numbers = np.frombuffer(b"".join(row[WIDTHS.size :] for row in rows), np.float64)
    table = numbers.reshape(len(rows), sum(widths))
    features, codes, parts, scores = np.split(table, np.cumsum(widths)[:-1], axis=1)
    return Captured(features, codes.astype(np.int64), parts, scores)
