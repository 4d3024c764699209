"""The stops of one `POST /predict`: bytes to rows, rows to scores, scores to an answer."""

import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.explain.interface import REFUSAL
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.service.errors import NotReady, RequestError
from kaboost.service.events.diagnosis import (
    MESSAGE,
    UNKNOWN,
    keep_to_grammar,
    read_float,
    read_int,
    shorten,
    show,
    unknown,
)
from kaboost.service.events.json import JsonDecoder

EMPTY = 'the body is empty: send JSON, such as {"features": {"age": 31}}'
TOO_DEEP = "nested too deeply to be read"
LEAST, MOST = LEVELS[0], LEVELS[-1]
NO_LEVEL = f"where a level from {LEAST} to {MOST} belongs, such as 0.9"
CLASSES = "a classification has no intervals, its probabilities say how sure it is; leave it out"
NO_ID = "where a string or null belongs; quote it"
MOST_NAMED = 20  # of the features that were passed over
REPEATED = "a key comes twice, and one of its values does not fit: send it once"
EITHER = "send either features, for one row, or instances, for many"


class Stamp(msgspec.Struct, frozen=True):
    """Which model answered, and how fresh it is."""

    name: str
    version: int
    events_learned: int
    snapshot_time: str
    cold_start: bool
    stale: bool


class Interval(msgspec.Struct, frozen=True):
    """Where labels lie that often: null is no bound, before enough events were learned."""

    level: float
    low: float | None
    high: float | None


class Explanation(msgspec.Struct, frozen=True):
    """Why a score is what it is: base, contributions, label lags and mixing add up to it."""

    score: float
    base: float
    contributions: dict[str, float]
    label_lags: dict[str, float]
    mixing: float
    recent_label_parts: dict[str, float]


class Prediction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the model says of one row; probabilities of a classification only, and null for a loss
    that has none; explanations when asked for, those of every class where there are several.
    """

    prediction: bool | int | float | str
    probability: float | UnsetType | None = UNSET
    probabilities: dict[str, float] | UnsetType | None = UNSET
    score: float
    interval: Interval | UnsetType = UNSET
    id: str | UnsetType = UNSET
    explanation: Explanation | UnsetType = UNSET
    explanations: dict[str, Explanation] | UnsetType = UNSET


class Answer(Prediction, kw_only=True, omit_defaults=True):
    """The answer to one row; `ignored` are names of features that the schema does not know."""

    model: Stamp
    ignored: list[str] | UnsetType = UNSET


class Answers(msgspec.Struct, omit_defaults=True):
    """The answer to many rows, in their order; `ignored` are such names in any of them."""

    predictions: list[Prediction]
    model: Stamp
    ignored: list[str] | UnsetType = UNSET


class Rows(NamedTuple):
    """The rows of one request."""

    features: list[Any]  # structs of the decoder's FeatureType
    ids: list[str | None]
    single: bool
    ignored: list[str]  # names of features that the schema does not know, once for every row
    level: float | None  # of the intervals that are asked for
    explain: bool  # whether answers say why


Level = Annotated[float, msgspec.Meta(ge=LEAST, le=MOST)]


class _Head(msgspec.Struct):
    """An instance before it is known in which of its two forms it came."""

    features: msgspec.Raw | UnsetType = UNSET


class _Names(msgspec.Struct):
    """A row of which only the features' names matter."""

    features: dict[str, msgspec.Raw]


class _Object(dict[str, object]):
    """A JSON object that tells of a repeated key all values, where a dict has the last."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        """Return the pairs as they came."""
        return self._pairs


class Door:
    """Translates for one schema and its labels; the types are built once."""

    def __init__(self, decoder: JsonDecoder, labels: Labels, max_rows: int) -> None:
        features: Any = decoder.FeatureType
        row: Any = msgspec.defstruct("Row", [("features", features), ("id", str | None, None)])
        body: Any = msgspec.defstruct(
            "Body",
            [
                ("features", features | UnsetType, UNSET),
                ("id", str | None, None),
                ("instances", list[msgspec.Raw] | UnsetType, UNSET),
                ("interval", Level | None, None),
                ("explain", bool, False),
            ],
        )
        self.Row = row
        strict = features.__struct_config__.forbid_unknown_fields
        self._features = features.__struct_encode_fields__
        self._known = None if strict else frozenset(self._features)
        self._decoder = decoder
        self._max_rows = max_rows
        self._classes = labels.classes
        self._texts = [labels.text(label) for label in labels.classes]
        self._body = msgspec.json.Decoder(body).decode
        self._head = msgspec.json.Decoder(_Head).decode
        self._wrapped = msgspec.json.Decoder(row).decode
        self._plain = msgspec.json.Decoder(features).decode
        self._names = msgspec.json.Decoder(_Names).decode
        self._bare = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def read(self, body: bytes | bytearray) -> Rows:
        """Return the rows of a body, or raise all that is wrong with it at once."""
        try:
            # msgspec does not look into strings that it skips: `str` finds broken UTF-8 there too.
            text = str(body, "utf-8")
            request = self._body(text)
            if (request.features is UNSET) is (request.instances is UNSET):
                self._refuse(body)
            level = request.interval
            if level is not None and self._classes:
                self._refuse(body)
            if request.instances is UNSET:
                ignored = self._ignored(text)
                return Rows([request.features], [request.id], True, ignored, level, request.explain)
            return self._many(request.instances, level, request.explain)
        except msgspec.ValidationError as err:
            self._refuse(body, err)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            if body.strip() and isinstance(err, msgspec.DecodeError):
                _parse(body)  # knows better of surrogates
            raise HTTPException(400, f"not JSON: {err}" if body.strip() else EMPTY) from err
        except RecursionError as err:
            raise HTTPException(400, TOO_DEEP) from err

    def answer(self, rows: Rows, model: Model, stamp: Stamp) -> bytes:
        """Predict the rows and write the answer."""
        table = self._decoder.tabulate(rows.features)
        found = model.predict(table)
        values, scores = model.predictions(found), found.tolist()
        if not all(math.isfinite(sum(row)) for row in scores):
            raise NotReady(f"version {stamp.version} predicts what is no number: it has diverged")
        if self._classes:
            chosen = model.classify(values).tolist()
            said = list(map(self._classify, values.tolist(), chosen, scores))
            if not model.has_probabilities:
                said = [{**each, "probability": None, "probabilities": None} for each in said]
        else:
            said = [
                {"prediction": value, "score": row[0]}
                for value, row in zip(values.tolist(), scores, strict=True)
            ]
        if rows.level is not None:
            found = model.intervals_around(values, rows.level).tolist()
            for each, ends in zip(said, found, strict=True):
                each["interval"] = Interval(rows.level, *map(_finite, ends))
        for each, name in zip(said, rows.ids, strict=True):
            if name is not None:
                each["id"] = name
        if rows.explain:
            self._explain(said, model, table)
        unknown = sorted(set(rows.ignored))[:MOST_NAMED] if rows.ignored else UNSET
        if rows.single:
            return msgspec.json.encode(Answer(**said[0], model=stamp, ignored=unknown))
        return msgspec.json.encode(Answers([Prediction(**each) for each in said], stamp, unknown))

    def _explain(self, said: list[dict[str, Any]], model: Model, table: Table) -> None:
        """Say with every prediction why; of several classes those of all, and the predicted one."""
        if not model.explicable:
            raise RequestError([("#/explain", REFUSAL)])
        for each, found in zip(said, model.explain(table), strict=True):
            reasons = [Explanation(**reason._asdict()) for reason in found]
            each["explanation"] = reasons[0]
            if len(reasons) > 1:
                each["explanation"] = reasons[self._classes.index(each["prediction"])]
                each["explanations"] = dict(zip(self._texts, reasons, strict=True))

    def _classify(self, shares: list[float], chosen: int, scores: list[float]) -> dict[str, Any]:
        """Word one prediction; a binary task is asked for its positive class, the second."""
        binary = len(scores) == 1
        return {
            "prediction": self._classes[chosen],
            "probability": shares[1 if binary else chosen],
            "probabilities": dict(zip(self._texts, shares, strict=True)),
            "score": scores[0 if binary else chosen],
        }

    def _count(self, rows: int) -> None:
        if rows > self._max_rows:
            detail = f"{rows} instances, api.max_rows is {self._max_rows}: send them in parts"
            raise HTTPException(413, detail)

    def _many(self, instances: list[msgspec.Raw], level: float | None, explain: bool) -> Rows:
        self._count(len(instances))
        rows = [self._row(raw) for raw in instances]
        ignored = [name for raw in instances for name in self._ignored(raw)]
        features, ids = [row.features for row in rows], [row.id for row in rows]
        return Rows(features, ids, False, ignored, level, explain)

    def _row(self, raw: msgspec.Raw) -> Any:
        """Read `{"features": {...}, "id"}`, or bare features: one of them may have that name."""
        return self._wrapped(raw) if self._is_wrapped(raw) else self.Row(self._plain(raw))

    def _is_wrapped(self, row: msgspec.Raw | str) -> bool:
        inner = self._head(row).features
        return inner is not UNSET and memoryview(inner)[0] == ord("{")

    def _ignored(self, row: msgspec.Raw | str) -> list[str]:
        """Name what is passed over in a row; where that is refused, nothing has come so far."""
        if self._known is None:
            return []
        features = self._names(row).features if self._is_wrapped(row) else self._bare(row)
        return list(features.keys() - self._known)

    def _refuse(
        self, body: bytes | bytearray, err: msgspec.ValidationError | None = None
    ) -> NoReturn:
        """Look again, slowly, and raise every fault with its place."""
        request = _parse(body)
        # Of features every value of a repeated key is seen, as msgspec does; elsewhere the last.
        found = list(self._faults(request)) or [("#", f"{REPEATED} ({err})")]
        first = next((k for k, (_, detail) in enumerate(found) if detail == UNKNOWN), None)
        if first is not None:
            pointer = found[first][0]
            name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            found[first] = (pointer, unknown(name, self._features))
        raise RequestError(found) from err

    def _faults(self, request: object) -> Iterator[tuple[str, str]]:
        if not isinstance(request, dict):
            yield "#", f"{show(request)} where an object belongs: {EITHER}"
            return
        if ("features" in request) is ("instances" in request):
            yield "#", _either(request)
        yield from self._level_faults(request.get("interval"))
        if not isinstance(wanted := request.get("explain", False), bool):
            yield "#/explain", f"{show(wanted)} where true or false belongs"
        if "features" in request:
            yield from self._row_faults(request, "#")
            return
        if not isinstance(name := request.get("id"), str | None):
            yield "#/id", f"{show(name)} {NO_ID}"
        if not isinstance(instances := request.get("instances", []), list):
            yield "#/instances", f"{show(instances)} where an array of rows belongs; {EITHER}"
        else:
            self._count(len(instances))
            for index, row in enumerate(instances):
                wrapped = isinstance(row, dict) and isinstance(row.get("features"), dict)
                find = self._row_faults if wrapped else self._decoder.diagnose
                yield from find(row, f"#/instances/{index}")

    def _level_faults(self, level: object) -> Iterator[tuple[str, str]]:
        if level is None:
            return
        number = isinstance(level, int | float) and not isinstance(level, bool)
        if self._classes:
            yield "#/interval", CLASSES
        elif not (number and LEAST <= level <= MOST):  # type: ignore[operator] # a number
            yield "#/interval", f"{show(level)} {NO_LEVEL}"

    def _row_faults(self, row: dict[str, object], pointer: str) -> Iterator[tuple[str, str]]:
        yield from self._decoder.diagnose(row["features"], f"{pointer}/features")
        if not isinstance(name := row.get("id"), str | None):
            yield f"{pointer}/id", f"{show(name)} {NO_ID}"


def _either(request: dict[str, object]) -> str:
    """Ask for one of both, and name what came instead."""
    sent = shorten(", ".join(list(request)[:MOST_NAMED]), MESSAGE)
    return f"{EITHER}; what came is {sent}" if sent else EITHER


def _parse(body: bytes | bytearray) -> object:
    """Read JSON as plain values; numbers beyond a float are infinite, for whoever judges them."""
    text = str(body, "utf-8")
    try:
        keep_to_grammar(text)
        return json.loads(
            text, object_pairs_hook=_Object, parse_int=read_int, parse_float=read_float
        )
    except RecursionError as err:
        raise HTTPException(400, TOO_DEEP) from err
    except msgspec.DecodeError as err:
        raise HTTPException(400, f"not JSON: {err}") from err


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None
