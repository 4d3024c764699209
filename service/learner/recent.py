"""The last events that were learned, and a sample of rows: kept as they are until somebody looks.

A batch costs the slices of its last events; all words are made once a second, by `reports`.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

from kaboost.models.evaluation.outcome import Outcome, part
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import Table, slice_table
from kaboost.models.features.schema import names_by_kind
from kaboost.models.model import Model
from kaboost.models.types import Vec
from kaboost.service.events.decoder import Decoded
from kaboost.service.learner.harmless import harmless

TAIL = 8  # events of a batch that are kept
BATCHES = 15  # whose last events are kept
SAMPLED_ROWS = 600
SAMPLED_FEATURES = 200  # whose missing values are counted
MAX_FEATURES = 60  # of an event that are shown
MAX_CHARS = 200  # of a value

Row = dict[str, Any]


class Rows(NamedTuple):
    """The features of a few events."""

    kinds: Mapping[str, str]
    table: Table

    def each(self, most: int) -> Iterator[Row]:
        """Yield every row, missing features as None; of many features the first ones only."""
        return self.of(list(islice(self.kinds, most)))

    def of(self, few: Sequence[str]) -> Iterator[Row]:
        """Yield every row with these features, those that are known."""
        columns = dict(self._columns(frozenset(few)))
        ordered = [(name, columns[name]) for name in few if name in columns]
        for k in range(len(self.table.numbers)):
            yield {name: column[k] for name, column in ordered}

    def _columns(self, wanted: frozenset[str]) -> Iterator[tuple[str, list[Any]]]:
        table = self.table
        values: Sequence[tuple[Any, Callable[[Any], Any]]] = (
            (table.numbers.T, _number),
            (table.booleans.T, _boolean),
            (table.categories, _words),
            (table.times.T, _instant),
            (table.texts, _words),
        )
        for names, (columns, plain) in zip(names_by_kind(self.kinds), values, strict=True):
            for name, column in zip(names, columns, strict=False):
                if name in wanted:
                    yield name, [plain(value) for value in column]


class Learned(NamedTuple):
    """The last events of a batch."""

    rows: Rows | None  # None where the features were captured before
    ids: Sequence[Any]
    y: Vec
    outcome: Outcome
    labels: Labels


class RecentEvents:
    """The last events of one learner; one thread calls."""

    def __init__(self) -> None:
        self._learned: deque[Learned] = deque(maxlen=BATCHES)
        self._losses: deque[Learned] = deque(maxlen=BATCHES)  # that no slice has yet
        self._rows: deque[Rows] = deque(maxlen=BATCHES)  # that no sample has yet
        self.sample: deque[Row] = deque(maxlen=SAMPLED_ROWS)
        self.kinds: Mapping[str, str] = {}

    def note(self, model: Model, decoded: Decoded, outcome: Outcome) -> None:
        """Keep the last events of a batch that was learned."""
        B = len(decoded.meta)
        if not B:
            return
        with harmless("last events"):
            rows = self._note_rows(model, decoded.table, B)
            ids = [meta.id for meta in decoded.meta[-TAIL:]]
            last = part(outcome, slice(max(B - TAIL, 0), B))
            learned = Learned(rows, ids, decoded.y[-TAIL:], last, model.labels)
            self._learned.append(learned)
            self._losses.append(learned)

    def note_features(self, model: Model, decoded: Decoded) -> None:
        """Keep the last features of a batch, whose labels come later."""
        with harmless("last features"):
            if decoded.meta:
                self._note_rows(model, decoded.table, len(decoded.meta))

    def note_pairs(self, model: Model, ids: Sequence[str], y: Vec, outcome: Outcome) -> None:
        """Keep the last events of a batch whose features were captured before."""
        B = len(ids)
        with harmless("last events"):
            last = part(outcome, slice(max(B - TAIL, 0), B))
            self._learned.append(Learned(None, ids[-TAIL:], y[-TAIL:], last, model.labels))

    def take_sample(self) -> list[Row]:
        """Add the rows of the last batches to the sample; return them."""
        taken: list[Row] = []
        while self._rows:
            rows = self._rows.popleft()
            if any(self.kinds.get(name, kind) != kind for name, kind in rows.kinds.items()):
                self.sample.clear()  # an inferred kind was corrected: values are of other types
                taken.clear()
            self.kinds = rows.kinds
            taken += rows.each(SAMPLED_FEATURES)
        self.sample.extend(taken)
        return taken

    def take_losses(self, names: Sequence[str]) -> Iterator[tuple[Row, float | None]]:
        """Yield these features and the loss of every event that was not taken before."""
        while self._losses:
            learned = self._losses.popleft()
            if learned.rows is not None:
                rows = learned.rows.of(names)
                for row, loss in zip(rows, learned.outcome.losses.tolist(), strict=True):
                    yield row, _finite(loss)

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the last events, the newest first: id, features, label, prediction, loss, error."""
        for learned in reversed(self._learned):
            rows = (
                list(learned.rows.each(MAX_FEATURES))
                if learned.rows is not None
                else [None] * len(learned.ids)
            )
            for k in reversed(range(len(learned.ids))):
                yield {"id": learned.ids[k], "features": rows[k]} | _outcome(learned, k)

    def _note_rows(self, model: Model, table: Table, B: int) -> Rows:
        last = slice_table(table, max(B - TAIL, 0), B)
        owned = last._replace(  # copies: a view keeps the whole batch in memory
            numbers=last.numbers.copy(), booleans=last.booleans.copy(), times=last.times.copy()
        )
        rows = Rows(model.encoder.kinds, owned)
        self._rows.append(rows)
        return rows


def _outcome(learned: Learned, k: int) -> dict[str, Any]:
    """Return what was predicted for an event, and what came."""
    labels, outcome = learned.labels, learned.outcome
    found: dict[str, Any] = {"label": labels.decode(float(learned.y[k]))}
    if labels.kind == "regression":
        found |= {"predicted": _finite(outcome.predictions[k]), "probability": None}
    else:
        shares = outcome.predictions[k].tolist()
        best = max(range(len(shares)), key=shares.__getitem__) if shares else 0
        known = bool(labels.classes)
        found["predicted"] = labels.classes[best] if known else None
        found["probability"] = _finite(shares[best]) if shares else None
    return found | {"loss": _finite(outcome.losses[k]), "error": _finite(outcome.errors[k])}


def _finite(value: Any) -> float | None:
    number = float(value.item() if hasattr(value, "item") else value)
    return number if math.isfinite(number) else None


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _boolean(value: Any) -> bool | None:
    return None if value != value else bool(value)


def _words(value: str | None) -> str | None:
    return value if value is None else value[:MAX_CHARS]


def _instant(seconds: Any) -> str | None:
    """Return the wall clock's time as text."""
    if not math.isfinite(seconds):
        return None
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.replace(tzinfo=None).isoformat() + "Z"
