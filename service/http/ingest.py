"""`POST /events` and `POST /labels`: records for those who do not speak Kafka; and predictions that
are written to a topic, for a label that comes later.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple, Protocol

import msgspec
from starlette.exceptions import HTTPException

from kaboost.models.features.labels import Labels
from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import RequestError
from kaboost.service.events.decoder import Decoder, Faults, no_headers
from kaboost.service.events.decoders import make_decoder
from kaboost.service.events.diagnosis import explain_json
from kaboost.service.events.label_records import LabelDecoder, make_label_decoder
from kaboost.service.http.answer_records import answer_record, model_keys
from kaboost.service.http.predict import Answer
from kaboost.service.http.reports import Accepted, WrittenRecord
from kaboost.service.metrics import ApiMetrics
from kaboost.service.storage.snapshots import Snapshot

ACCEPT_SECONDS = 10.0  # for the broker to confirm the records of one request
JSON_ONLY = (
    "{} = {}: this route writes JSON; produce records in that format with a Kafka client instead"
)
MAYBE_JSON = (
    "{0} = auto with events.schema_registry: this route writes JSON, and the records of the topic "
    "may have another format; set {0}: json if they are JSON, else produce them with a Kafka client"
)
OBJECTS = "send an object, or an array of them"
NO_FEATURES = msgspec.Raw(b"{}")
NO_ROOM = (
    "none was written: with these, more than predictions.max_pending = {} records would be on "
    "their way; send them again later, or in parts"
)
PARTLY = (
    "too many records are on their way; some of these may be written: send them again later, with "
    "ids"
)
NO_LABELS = "labels.topic is not set: events bring their labels; send them to /events"

Place = tuple[str, int, int]


class Sender(Protocol):
    """Write records to Kafka."""

    @property
    def room(self) -> int:
        """How many records may be sent now."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes,
        delivered: Callable[[Place | None, str], None],
    ) -> bool:
        """Send a record; return false if too many are on their way."""


class Checked(NamedTuple):
    """The records of a request, as they came, and what the learner would find in them."""

    values: list[bytes]
    faults: Faults
    ids: list[str | None]  # of every record; None for one that is skipped, such as a delete


class Ingest:
    """Check records as the learner would, and write them to the topic that it reads."""

    def __init__(self, settings: Settings, sender: Sender, metrics: ApiMetrics) -> None:
        self._settings = settings
        self._sender = sender
        self._metrics = metrics

    async def events(self, body: bytes | bytearray, model: Model) -> Accepted:
        """Write one event, or an array of them."""
        self._require_json("events.format", self._settings.events.format)
        values, faults, ids = await asyncio.to_thread(self._read_events, body, model)
        return await self._write(self._settings.kafka.topic, values, faults, ids)

    async def labels(self, body: bytes | bytearray, model: Model) -> Accepted:
        """Write one label, or an array of them."""
        topic = self._settings.labels.topic
        if topic is None:
            raise HTTPException(404, NO_LABELS)
        section = self._settings.labels
        self._require_json("labels.format", section.format or self._settings.events.format)
        values, faults, ids = await asyncio.to_thread(self._read_labels, body, model)
        return await self._write(topic, values, faults, ids)

    def _read_events(self, body: bytes | bytearray, model: Model) -> Checked:
        """Check events, in a thread: building the decoder takes milliseconds."""
        values = self._records(body)
        decoder = make_decoder(model.encoder.schema, model.labels, self._settings)
        faults, ids = _check(decoder, values, model.labels)
        return Checked(values, faults, ids)

    def _read_labels(self, body: bytes | bytearray, model: Model) -> Checked:
        """Check labels."""
        values = self._records(body)
        decoder = make_label_decoder(self._settings, model.labels)
        faults, ids = _check_labels(decoder, values, model.labels)
        return Checked(values, faults, ids)

    def _records(self, body: bytes | bytearray) -> list[bytes]:
        """Return the bytes of every record, as they came."""
        limit = self._settings.api.max_rows
        try:
            text = str(body, "utf-8").strip(" \t\r\n")
            if not text.startswith("["):
                return [text.encode()]
            records = msgspec.json.decode(text, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
            raise HTTPException(400, f"not JSON: {explain_json(err)}; {OBJECTS}") from err
        if not records:
            raise HTTPException(422, f"the array is empty; {OBJECTS}")
        if len(records) > limit:
            detail = f"{len(records)} records, api.max_rows is {limit}: send them in parts"
            raise HTTPException(413, detail)
        return list(map(bytes, records))

    async def _write(
        self, topic: str, values: Sequence[bytes], faults: Faults, ids: Sequence[str | None]
    ) -> Accepted:
        """Send valid records and wait for the broker, or refuse all of them with their faults."""
        if faults:
            named = [("#" if len(values) == 1 else f"#/{k}", error) for k, error in faults]
            broken = next((each for each in named if each[1].code == "json"), None)
            if broken is not None:
                raise HTTPException(400, f"{broken[0]}: {broken[1].message}")
            raise RequestError([(pointer, error.message) for pointer, error in named])
        if len(values) > self._sender.room:  # before any is written
            raise HTTPException(503, NO_ROOM.format(self._settings.predictions.max_pending))
        keys = [None if id_ is None else id_.encode() for id_ in ids]
        loop = asyncio.get_running_loop()
        futures = []
        for key, value in zip(keys, values, strict=True):
            future: asyncio.Future[Place] = loop.create_future()
            if not self._sender.send(topic, key, value, _resolver(loop, future)):
                raise HTTPException(503, PARTLY)
            futures.append(future)
        try:
            places = await asyncio.wait_for(asyncio.gather(*futures), ACCEPT_SECONDS)
        except (TimeoutError, ConnectionError) as err:
            reason = str(err) or f"no confirmation within {ACCEPT_SECONDS:g} s"
            detail = (
                f"topic {topic}: {reason}; some records may be written: send them again with ids"
            )
            raise HTTPException(503, detail) from err
        self._metrics.accepted.labels(topic).inc(len(places))
        return Accepted(
            records=[WrittenRecord(topic=t, partition=p, offset=offset) for t, p, offset in places]
        )

    def _require_json(self, key: str, value: str) -> None:
        if value not in ("auto", "json"):
            raise HTTPException(409, JSON_ONLY.format(key, value))
        if value == "auto" and self._settings.events.schema_registry is not None:
            raise HTTPException(409, MAYBE_JSON.format(key))


class PredictionLog:
    """Write answers that have an id to `predictions.topic`, in the background."""

    def __init__(self, settings: Settings, sender: Sender, metrics: ApiMetrics) -> None:
        self._topic = settings.predictions.topic
        self._sender = sender
        self._metrics = metrics

    def write(
        self,
        ids: Sequence[str | None],
        request: bytes | bytearray,
        response: Answer,
        snapshot: Snapshot,
    ) -> None:
        """Write the rows of one response that have an id; it never fails and never waits."""
        if self._topic is None or not any(id_ is not None for id_ in ids):
            return
        answer = msgspec.json.decode(response.body)
        predictions = answer.get("predictions") or [answer]
        model, now = answer["model"], datetime.now(UTC).isoformat()
        rows = _sent_features(request)
        scores = response.scores.tolist()
        keys = model_keys(model["version"], snapshot.header, snapshot.numbering.epoch)
        for id_, row, prediction, of_classes in zip(ids, rows, predictions, scores, strict=True):
            if id_ is None:
                continue
            record = answer_record(id_, now, row, prediction, of_classes, keys)
            value = msgspec.json.encode(record)
            if not self._sender.send(self._topic, id_.encode(), value, self._count):
                self._metrics.predictions_logged.labels("dropped").inc()

    def _count(self, place: Place | None, reason: str) -> None:
        self._metrics.predictions_logged.labels("failed" if place is None else "written").inc()


def _check(
    decoder: Decoder, values: Sequence[bytes], labels: Labels
) -> tuple[Faults, list[str | None]]:
    """Return the faults of events, and the ids of all; new features and classes are no fault."""
    faults: Faults = []
    ids: list[str | None] = [None] * len(values)
    first = 0
    while first < len(values):
        decoded = decoder.decode(values[first:])
        faults += [(first + index, error) for index, error in decoded.faults]
        gone = {index for index, _ in chain(decoded.faults, decoded.skipped)}
        places = (first + index for index in range(decoded.consumed) if index not in gone)
        for place, meta in zip(places, decoded.meta, strict=True):
            ids[place] = None if meta.id is None else str(meta.id)
        if decoded.new_features:
            decoder.add_features(decoded.new_features)
        if decoded.new_class is not None:
            labels = labels.with_class(decoded.new_class)
            decoder.follow_labels(labels)
        first += decoded.consumed
    return faults, ids


def _check_labels(
    decoder: LabelDecoder, values: Sequence[bytes], labels: Labels
) -> tuple[Faults, list[str | None]]:
    """Return the faults of labels, and the ids of all."""
    faults: Faults = []
    ids: list[str | None] = [None] * len(values)
    first = 0
    while first < len(values):
        decoded = decoder.decode(values[first:], no_headers)
        faults += [(first + index, error) for index, error in decoded.faults]
        for label in decoded.labels:
            ids[first + label.place] = label.id
        if decoded.new_class is not None:
            labels = labels.with_class(decoded.new_class)
            decoder.follow_labels(labels)
        first += decoded.consumed
    return faults, ids


def _sent_features(body: bytes | bytearray) -> list[msgspec.Raw]:
    """Return the features of every row of a request, as they were sent."""
    request = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    if "features" in request:
        return [request["features"]]
    rows = msgspec.json.decode(request["instances"], type=list[dict[str, msgspec.Raw]])
    # Rows without the key are bare features, and have no id.
    return [row.get("features", NO_FEATURES) for row in rows]


def _resolver(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Place]"
) -> Callable[[Place | None, str], None]:
    """Return what resolves a future from the sender's thread."""

    def resolve(place: Place | None, reason: str) -> None:
        def finish() -> None:
            if future.done():
                return
            if place is None:
                future.set_exception(ConnectionError(reason))
            else:
                future.set_result(place)

        loop.call_soon_threadsafe(finish)

    return resolve
