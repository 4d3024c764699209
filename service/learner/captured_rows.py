"""Captured events as bytes and back: what waits for a label is stored row by row."""

import struct
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from kaboost.models.table_model import Captured
from kaboost.models.types import Mat, Vec

WIDTHS = struct.Struct("<5I")  # columns of features, codes, parts, scores and baselines


class CapturedGroup(NamedTuple):
    """Captured events of equal widths."""

    places: list[int]  # of them among all
    captured: Captured
    baselines: Mat  # (B, k) what the baselines predicted then


def pack(captured: Captured, baselines: Vec) -> list[bytes]:
    """Return every event as bytes: five widths, then float64 numbers.

    `baselines` (k,) is what they predict for each of these events.
    """
    B = len(captured.X)
    parts = [*captured, np.broadcast_to(baselines, (B, len(baselines)))]
    head = WIDTHS.pack(*(part.shape[1] for part in parts))
    rows = np.concatenate([np.asarray(part, np.float64) for part in parts], axis=1)
    return [head + row.tobytes() for row in rows]


def unpack(rows: Sequence[bytes]) -> list[CapturedGroup]:
    """Return captured events in their order, those of equal widths in a row as one group.

    Widths differ between events before and after new features.
    """
    groups = groupby(range(len(rows)), lambda place: rows[place][: WIDTHS.size])
    runs = ((head, list(places)) for head, places in groups)
    return [
        CapturedGroup(places, *_together(head, [rows[k] for k in places])) for head, places in runs
    ]


def _together(head: bytes, rows: Sequence[bytes]) -> tuple[Captured, Mat]:
    widths = WIDTHS.unpack(head)
    numbers = np.frombuffer(b"".join(row[WIDTHS.size :] for row in rows), np.float64)
    table = numbers.reshape(len(rows), sum(widths))
    # Copies: kernels are compiled once more for arrays that are read-only or no block of their own.
    columns = [part.copy() for part in np.split(table, np.cumsum(widths)[:-1], axis=1)]
    features, codes, parts, scores, baselines = columns
    return Captured(features, codes.astype(np.int64), parts, scores), baselines
