"""The codec of `POST /predict`: request bytes to rows, rows to scores, scores to response bytes."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException

from kaboost.models.evaluation.intervals import LEVELS
from kaboost.models.explain.interface import REFUSAL
from kaboost.models.features.labels import Labels
from kaboost.models.features.onehot import Table
from kaboost.models.model import Model
from kaboost.models.types import Mat
from kaboost.service.errors import NotReady, RequestError
from kaboost.service.events.diagnosis import (
    UNKNOWN,
    explain_json,
    keep_to_grammar,
    nearest,
    read_float,
    read_int,
    show,
    unknown,
)
from kaboost.service.events.json import JsonDecoder
from kaboost.service.http.prediction_warnings import (
    MAX_NAMED,
    ONE_OF_BOTH,
    either,
    missing_features,
    unknown_names,
)

EMPTY_BODY = 'the body is empty: send JSON, such as {"features": {"age": 31}}'
TOO_DEEP = "nested too deeply to be parsed"
MIN_LEVEL, MAX_LEVEL = LEVELS[0], LEVELS[-1]
LEVEL_RANGE = f"where a level from {MIN_LEVEL} to {MAX_LEVEL} belongs, such as 0.9"
NO_INTERVALS = "a classification has no intervals, only probabilities; leave it out"
ID_TYPE = "where a string, a whole number or null belongs; quote it"
REPEATED_KEY = "a key occurs twice, and one of its values does not fit: send it once"
EVENT_KEYS = (
    "label",
    "timestamp",
    "weight",
)  # accepted and not read: an event can be sent as it is
ROW_KEYS = ("features", "id", *EVENT_KEYS)
BODY_KEYS = (*ROW_KEYS, "instances", "interval", "explain")
KEY_REMEDY = "leave it out, or set features.unknown: ignore"


class Stamp(msgspec.Struct, frozen=True):
    """Which model version predicted, and how fresh it is."""

    name: str
    version: int
    events_learned: int
    snapshot_time: str
    cold_start: bool
    stale: bool
    fallback: bool = False  # whether it is the last good model, not the current one


class Interval(msgspec.Struct, frozen=True):
    """A prediction interval; a bound is null until enough events were learned."""

    level: float
    low: float | None
    high: float | None


class Explanation(msgspec.Struct, frozen=True):
    """A score as a sum: base, contributions, and label lags add up to it."""

    score: float | None
    base: float
    contributions: dict[str, float]
    label_lags: dict[str, float]
    recent_label_parts: dict[str, float]


class Prediction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The prediction of one row: probabilities for a classification (null for a loss that has
    none), explanations if requested (of every class of several). Prediction and score are null
    before the first class, where classes are learned as they come.
    """

    prediction: bool | int | float | str | None
    probability: float | UnsetType | None = UNSET
    probabilities: dict[str, float] | UnsetType | None = UNSET
    score: float
    interval: Interval | UnsetType = UNSET
    id: str | UnsetType = UNSET
    explanation: Explanation | UnsetType = UNSET
    explanations: dict[str, Explanation] | UnsetType = UNSET


class PredictResponse(Prediction, kw_only=True, omit_defaults=True):
    """The response to one row; `ignored` lists features that the schema does not know, `warnings`
    what else the request may have meant.
    """

    model: Stamp
    ignored: list[str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class BatchPredictResponse(msgspec.Struct, omit_defaults=True):
    """The response to many rows, in their order; `ignored` lists the unknown features of all."""

    predictions: list[Prediction]
    model: Stamp
    ignored: list[str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class Answer(NamedTuple):
    """The response to one request."""

    body: bytes
    scores: Mat  # (B, m) of its rows, those of all classes


class Rows(NamedTuple):
    """The rows of one request."""

    features: list[Any]  # structs of the decoder's FeatureType
    ids: list[str | None]
    single: bool
    ignored: list[str]  # features that the schema does not know, once for every row
    level: float | None  # of the requested intervals
    explain: bool  # whether explanations are requested
    unknown_keys: Sequence[str] = ()  # next to features, that were ignored


Change = Callable[[msgspec.Raw], msgspec.Raw]
Id = str | int | None  # a whole number is the same id as its text
Level = Annotated[float, msgspec.Meta(ge=MIN_LEVEL, le=MAX_LEVEL)]


class _Head(msgspec.Struct):
    """An instance whose form, wrapped or bare, is not known yet."""

    features: msgspec.Raw | UnsetType = UNSET


class _Names(msgspec.Struct):
    """A row, decoded for the names of its features only."""

    features: dict[str, msgspec.Raw]


class _Object(dict[str, object]):
    """A JSON object that keeps all values of a repeated key, where a dict keeps the last."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self._pairs = pairs

    def items(self) -> Any:
        """Return the pairs in order, repeated keys included."""
        return self._pairs


class PredictCodec:
    """Decode requests and encode responses for one schema and its labels."""

    def __init__(
        self, decoder: JsonDecoder, labels: Labels, max_rows: int, *, ignore_keys: bool = False
    ) -> None:
        features: Any = decoder.FeatureType
        self.Row: Any = msgspec.defstruct("Row", [("features", features), ("id", Id, None)])
        row, body = request_types(features, strict=not ignore_keys)
        self._ignore_keys = ignore_keys
        strict = features.__struct_config__.forbid_unknown_fields
        self.feature_names = tuple(decoder.feature_names)
        self.ignores_unknown = not strict
        self.max_rows = max_rows
        self._known = None if strict else frozenset(features.__struct_encode_fields__)
        self._decoder = decoder
        self.aliases = decoder.aliases
        self._classes = labels.classes
        self._kind = labels.kind
        self._texts = [labels.text(label) for label in labels.classes]
        self._decode_body = msgspec.json.Decoder(body).decode
        self._decode_head = msgspec.json.Decoder(_Head).decode
        self._decode_row = msgspec.json.Decoder(row).decode
        self._decode_features = msgspec.json.Decoder(features).decode
        self._decode_names = msgspec.json.Decoder(_Names).decode
        self._decode_bare = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def read(self, body: bytes | bytearray) -> Rows:
        """Decode the rows of a body, or raise all its faults at once."""
        try:
            return self._read(self._aliased(body))
        except msgspec.ValidationError as err:
            reread = self._mapped(body, self._decoder.reread)
            if reread is not None:
                with suppress(msgspec.ValidationError):
                    return self._read(self._aliased(reread))
            self._refuse(body, err)

    def _read(self, body: bytes | bytearray) -> Rows:
        """Decode the rows of a body whose values are of their usual types."""
        try:
            # msgspec does not validate strings that it skips: `str` finds invalid UTF-8 there too.
            text = str(body, "utf-8")
            request = self._decode_body(text)
            if (request.features is UNSET) is (request.instances is UNSET):
                self._refuse(body)
            level = request.interval
            if level is not None and self._kind != "regression":
                self._refuse(body)
            keys = self._unknown_keys(text, BODY_KEYS)
            if request.instances is UNSET:
                ignored = self._ignored(text)
                ids = _texts([request.id])
                return Rows([request.features], ids, True, ignored, level, request.explain, keys)
            return self._many(request.instances, level, request.explain, keys)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            if body.strip() and isinstance(err, msgspec.DecodeError):
                _parse(body)  # has the better message for surrogates
            why = f"not JSON: {explain_json(err)}" if body.strip() else EMPTY_BODY
            raise HTTPException(400, why) from err
        except RecursionError as err:
            raise HTTPException(400, TOO_DEEP) from err

    def respond(self, rows: Rows, model: Model, stamp: Stamp) -> Answer:
        """Predict the rows and encode the response."""
        table = self._decoder.tabulate(rows.features)
        scores = model.predict(table)
        values = model.predictions(scores)
        if not all(math.isfinite(sum(row)) for row in scores.tolist()):
            raise NotReady(f"version {stamp.version} predicts no finite numbers: it has diverged")
        predictions = self.predictions(model, values, scores, cold=stamp.cold_start)
        if rows.level is not None:
            bounds = model.intervals_around(values, rows.level).tolist()
            for prediction, ends in zip(predictions, bounds, strict=True):
                prediction["interval"] = Interval(rows.level, *map(_finite, ends))
        for prediction, id_ in zip(predictions, rows.ids, strict=True):
            if id_ is not None:
                prediction["id"] = id_
        if rows.explain:
            self._explain(predictions, model, table)
        return Answer(_encode(predictions, rows, stamp, self._warnings(rows, table)), scores)

    def _warnings(self, rows: Rows, table: Table) -> list[str]:
        """List what the request lacks, and what of it was ignored."""
        return [
            *unknown_names(rows.unknown_keys, BODY_KEYS, "a key of a request"),
            *unknown_names(rows.ignored, self.feature_names, "a feature"),
            *missing_features(self.feature_names, rows.features, table),
        ]

    def predictions(
        self, model: Model, values: Mat, scores: Mat, *, cold: bool
    ) -> list[dict[str, Any]]:
        """Describe the predictions of B rows: values (B, C), or (B,), and scores (B, m)."""
        if self._kind == "regression":
            return [
                {"prediction": value, "score": score}
                for value, (score,) in zip(values.tolist(), scores.tolist(), strict=True)
            ]
        if not self._classes:  # none was learned yet
            nothing: dict[str, Any] = {
                "prediction": None,
                "probability": None,
                "probabilities": {},
                "score": None,
            }
            return [nothing.copy() for _ in values]
        # Before any event nothing speaks for the positive class: the first one is the negative.
        chosen = [0] * len(values) if cold else model.classify(values).tolist()
        made = list(map(self._classify, values.tolist(), chosen, scores.tolist()))
        if not model.has_probabilities:
            made = [{**one, "probability": None, "probabilities": None} for one in made]
        return made

    def _explain(self, predictions: list[dict[str, Any]], model: Model, table: Table) -> None:
        """Add explanations: of the predicted class, and of all classes if there are several."""
        if not model.explicable:
            raise RequestError([("#/explain", REFUSAL)])
        for prediction, scores in zip(predictions, model.explain(table), strict=True):
            explanations = [Explanation(**score._asdict()) for score in scores]
            if explanations:  # none before the first class
                prediction["explanation"] = explanations[0]
            if len(explanations) > 1:
                chosen = self._classes.index(prediction["prediction"])
                prediction["explanation"] = explanations[chosen]
                prediction["explanations"] = dict(zip(self._texts, explanations, strict=True))

    def _classify(
        self, probabilities: list[float], chosen: int, scores: list[float]
    ) -> dict[str, Any]:
        """Describe one prediction; a binary one by the probability of the positive class."""
        binary = self._kind == "binary"
        return {
            "prediction": self._classes[chosen],
            "probability": probabilities[1 if binary else chosen],
            "probabilities": dict(zip(self._texts, probabilities, strict=True)),
            "score": scores[0 if binary else chosen],
        }

    def _count(self, rows: int) -> None:
        if rows > self.max_rows:
            raise too_many("instances", rows, self.max_rows)

    def _many(
        self, instances: list[msgspec.Raw], level: float | None, explain: bool, keys: Sequence[str]
    ) -> Rows:
        self._count(len(instances))
        rows = [self._row(raw) for raw in instances]
        ignored = [name for raw in instances for name in self._ignored(raw)]
        if self._ignore_keys:
            wrapped = filter(self._is_wrapped, instances)
            keys = [*keys, *(key for raw in wrapped for key in self._unknown_keys(raw, ROW_KEYS))]
        features, ids = [row.features for row in rows], _texts(row.id for row in rows)
        return Rows(features, ids, False, ignored, level, explain, keys)

    def _row(self, raw: msgspec.Raw) -> Any:
        """Decode `{"features": {...}, "id"}`, or bare features, one of which may be so named."""
        if self._is_wrapped(raw):
            return self._decode_row(raw)
        return self.Row(self._decode_features(raw))

    def _is_wrapped(self, row: msgspec.Raw | str) -> bool:
        inner = self._decode_head(row).features
        return inner is not UNSET and memoryview(inner)[0] == ord("{")

    def _ignored(self, row: msgspec.Raw | str) -> list[str]:
        """List the ignored features of a row; a strict schema has refused them before."""
        if self._known is None:
            return []
        wrapped = self._is_wrapped(row)
        features = self._decode_names(row).features if wrapped else self._decode_bare(row)
        return list(features.keys() - self._known)

    def _unknown_keys(self, text: msgspec.Raw | str, known: Sequence[str]) -> list[str]:
        """List the keys next to features that were ignored; otherwise they were refused before."""
        if not self._ignore_keys:
            return []
        return [key for key in self._decode_bare(text) if key not in known]

    def _aliased(self, body: bytes | bytearray) -> bytes | bytearray:
        """Return a body with the names that the types have."""
        if not self._decoder.aliases:
            return body
        return self._mapped(body, self._decoder.rename) or body

    def _mapped(self, body: bytes | bytearray, change: Change) -> bytes | None:
        """Return a body with each object of features changed; None if all stay as they are, and for
        anything that is no request.
        """
        decode, changed = msgspec.json.decode, False
        try:
            request = decode(body, type=dict[str, msgspec.Raw])
            if "features" in request:
                before = request["features"]
                request["features"] = change(before)
                changed = request["features"] is not before
            if "instances" in request:
                rows = decode(request["instances"], type=list[msgspec.Raw])
                other = [self._mapped_row(row, change) for row in rows]
                changed |= any(a is not b for a, b in zip(rows, other, strict=True))
                request["instances"] = msgspec.Raw(msgspec.json.encode(other))
        except (msgspec.DecodeError, RecursionError):
            return None
        return msgspec.json.encode(request) if changed else None

    def _mapped_row(self, raw: msgspec.Raw, change: Change) -> msgspec.Raw:
        """Return features, or an instance, changed."""
        if not self._is_wrapped(raw):
            return change(raw)
        row = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        features = change(row["features"])
        if features is row["features"]:
            return raw
        return msgspec.Raw(msgspec.json.encode({**row, "features": features}))

    def _refuse(
        self, body: bytes | bytearray, err: msgspec.ValidationError | None = None
    ) -> NoReturn:
        """Parse again, slowly, and raise every fault with its JSON pointer."""
        request = _parse(body)
        # In features every value of a repeated key is checked, as msgspec does; elsewhere the last.
        faults = list(self._faults(request)) or [("#", f"{REPEATED_KEY} ({err})")]
        first = next((k for k, (_, detail) in enumerate(faults) if detail == UNKNOWN), None)
        if first is not None:
            pointer = faults[first][0]
            name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
            faults[first] = (pointer, unknown(name, self.feature_names))
        raise RequestError(faults) from err

    def _faults(self, request: object) -> Iterator[tuple[str, str]]:
        if not isinstance(request, dict):
            yield "#", f"{show(request)} where an object belongs: {ONE_OF_BOTH}"
            return
        if ("features" in request) is ("instances" in request):
            yield "#", either(request)
        else:
            yield from self._key_faults(request, BODY_KEYS, "#")
        yield from self._level_faults(request.get("interval"))
        if not isinstance(wanted := request.get("explain", False), bool):
            yield "#/explain", f"{show(wanted)} where true or false belongs"
        if "features" in request:
            yield from self._row_faults(request, "#")
            return
        if not _is_id(name := request.get("id")):
            yield "#/id", f"{show(name)} {ID_TYPE}"
        if not isinstance(instances := request.get("instances", []), list):
            yield "#/instances", f"{show(instances)} where an array of rows belongs; {ONE_OF_BOTH}"
        else:
            self._count(len(instances))
            for index, row in enumerate(instances):
                pointer = f"#/instances/{index}"
                if isinstance(row, dict) and isinstance(row.get("features"), dict):
                    yield from self._key_faults(row, ROW_KEYS, pointer)
                    yield from self._row_faults(row, pointer)
                else:
                    yield from self._decoder.diagnose(row, pointer)

    def _key_faults(
        self, request: dict[str, object], known: Sequence[str], pointer: str
    ) -> Iterator[tuple[str, str]]:
        """Refuse unknown keys next to features: a misspelled one would have no effect."""
        unknown = [key for key in request if key not in known and not self._ignore_keys]
        for key in unknown:
            near = nearest(key, known)
            meant = f"did you mean {near}? Else {KEY_REMEDY}" if near else KEY_REMEDY
            place = key.replace("~", "~0").replace("/", "~1")
            yield f"{pointer}/{place}", f"{show(key)} is not a key of a request; {meant}"

    def _level_faults(self, level: object) -> Iterator[tuple[str, str]]:
        if level is None:
            return
        number = isinstance(level, int | float) and not isinstance(level, bool)
        if self._kind != "regression":
            yield "#/interval", NO_INTERVALS
        elif not (number and MIN_LEVEL <= level <= MAX_LEVEL):  # type: ignore[operator] # a number
            yield "#/interval", f"{show(level)} {LEVEL_RANGE}"

    def _row_faults(self, row: dict[str, object], pointer: str) -> Iterator[tuple[str, str]]:
        yield from self._decoder.diagnose(row["features"], f"{pointer}/features")
        if not _is_id(name := row.get("id")):
            yield f"{pointer}/id", f"{show(name)} {ID_TYPE}"


def request_types(features: Any, *, strict: bool) -> tuple[Any, Any]:
    """Build the types of a row and of a body; strict ones refuse unknown keys."""
    unread = [(key, msgspec.Raw | UnsetType, UNSET) for key in EVENT_KEYS]
    id_ = ("id", Id, None)
    row = msgspec.defstruct(
        "StrictRow", [("features", features), id_, *unread], forbid_unknown_fields=strict
    )
    body = msgspec.defstruct(
        "Body",
        [
            ("features", features | UnsetType, UNSET),
            id_,
            ("instances", list[msgspec.Raw] | UnsetType, UNSET),
            ("interval", Level | None, None),
            ("explain", bool, False),
            *unread,
        ],
        forbid_unknown_fields=strict,
    )
    return row, body


def _encode(
    predictions: list[dict[str, Any]], rows: Rows, stamp: Stamp, warnings: list[str]
) -> bytes:
    listed = warnings or UNSET
    ignored = sorted(set(rows.ignored))[:MAX_NAMED] if rows.ignored else UNSET
    if rows.single:
        return msgspec.json.encode(
            PredictResponse(**predictions[0], model=stamp, ignored=ignored, warnings=listed)
        )
    many = [Prediction(**prediction) for prediction in predictions]
    return msgspec.json.encode(BatchPredictResponse(many, stamp, ignored, listed))


def _parse(body: bytes | bytearray) -> object:
    """Parse JSON to plain values; numbers beyond a float become infinite and are faults later."""
    try:
        text = str(body, "utf-8")
        keep_to_grammar(text)
        return json.loads(
            text, object_pairs_hook=_Object, parse_int=read_int, parse_float=read_float
        )
    except RecursionError as err:
        raise HTTPException(400, TOO_DEEP) from err
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise HTTPException(400, f"not JSON: {explain_json(err)}") from err


def too_many(what: str, rows: int, limit: int) -> HTTPException:
    """Make the error for more rows than a request may have."""
    return HTTPException(413, f"{rows} {what}, api.max_rows is {limit}: send them in parts")


def _texts(ids: Iterable[str | int | None]) -> list[str | None]:
    """Return ids as text: responses and Kafka's keys have them so."""
    return [str(id_) if isinstance(id_, int) else id_ for id_ in ids]


def _is_id(value: object) -> bool:
    return isinstance(value, str | int | None) and not isinstance(value, bool)


def _finite(end: float) -> float | None:
    return end if math.isfinite(end) else None
