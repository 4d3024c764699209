"""Records to answers: one batch is decoded, predicted and encoded at once."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from confluent_kafka import Message

from kaboost.models.model import Model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import EventError, NotReady
from kaboost.service.events.decoder import Decoded, Headers
from kaboost.service.events.decoders import make_unlabelled_decoder
from kaboost.service.events.typed import TypedDecoder
from kaboost.service.http.answer_records import answer_record, model_keys
from kaboost.service.http.follower import Served, missing_rows
from kaboost.service.kafka.dead_letters import write
from kaboost.service.kafka.transactions import Record
from kaboost.service.score.sent_features import SentFeatures

NOT_FINITE = (
    "the model answers no finite number: a feature is far from all that it has learned; send null "
    "for it, or another unit"
)
DIVERGED = "version {} predicts no finite numbers: it has diverged"


class Answers(NamedTuple):
    """What becomes of one batch of records."""

    records: list[Record]  # answers, and dead letters
    answered: int
    dead: Counter[str]  # by reason
    skipped: Counter[str]  # by reason
    ignored: int  # values of unknown features


class Scorer:
    """Answer batches of records from the snapshot that is served; one thread calls."""

    def __init__(self, settings: Settings) -> None:
        score, topic = settings.score, settings.predictions.topic
        assert score.topic is not None
        assert topic is not None
        self._settings = settings
        self._source, self._topic, self._dlq = score.topic, topic, score.dlq
        self._decoder: TypedDecoder | None = None
        self._sent = SentFeatures(settings) if score.features else None
        self._sound: Served | None = None  # whose model was seen to predict finite numbers

    def answer(self, messages: Sequence[Message], served: Served) -> Answers:
        """Return the answers of a batch, in its order.

        Raises
        ------
        NotReady
            If the model has diverged.
        RegistryAway
            If the schema registry gives no schema now.
        """
        self._require_sound(served)
        answers = Answers([], 0, Counter(), Counter(), 0)
        decoder, first = self._follow(served.snapshot.model), 0
        decoder.prepare([message.value() for message in messages])
        while first < len(messages):
            part = messages[first:]
            decoded = decoder.decode([m.value() for m in part], _headers_of(part))
            answers = self._answer_part(part[: decoded.consumed], decoded, served, answers)
            first += decoded.consumed
        return answers

    def _follow(self, model: Model) -> TypedDecoder:
        """Return the decoder of the model's features."""
        schema = model.encoder.schema
        if self._decoder is None:
            self._decoder = make_unlabelled_decoder(
                schema, model.labels, self._settings, self._source
            )
        self._decoder.follow(schema)
        return self._decoder

    def _answer_part(
        self, messages: Sequence[Message], decoded: Decoded, served: Served, before: Answers
    ) -> Answers:
        """Add the answers of records that were decoded together."""
        faults = dict(decoded.faults)
        gone = {index for index, _ in chain(decoded.faults, decoded.skipped)}
        events = [k for k in range(len(messages)) if k not in gone]
        if events:
            records = self._encode([messages[k] for k in events], decoded, served)
            made = [record for record in records if record is not None]
            for k, record in zip(events, records, strict=True):
                if record is None:
                    faults[k] = EventError("not_finite", NOT_FINITE)
            before.records.extend(made)
        before.records.extend(self._letter(messages[k], error) for k, error in faults.items())
        return before._replace(
            answered=before.answered + len(messages) - len(faults) - len(decoded.skipped),
            dead=before.dead + Counter(error.code for error in faults.values()),
            skipped=before.skipped + Counter(reason for _, reason in decoded.skipped),
            ignored=before.ignored + decoded.ignored,
        )

    def _encode(
        self, messages: Sequence[Message], decoded: Decoded, served: Served
    ) -> list[Record | None]:
        """Return the answers of decoded records; None where the model has no finite number."""
        snapshot, stamp = served.snapshot, served.stamp
        model = snapshot.model
        scores = model.predict(decoded.table)
        values = model.predictions(scores)
        made = served.codec.predictions(model, values, scores, cold=stamp.cold_start)
        finite = np.isfinite(scores).all(axis=1).tolist()
        keys = model_keys(stamp.version, snapshot.header, snapshot.numbering.epoch)
        rows = zip(messages, decoded.meta, made, scores.tolist(), finite, strict=True)
        records: list[Record | None] = []
        for message, meta, prediction, of_classes, is_finite in rows:
            if not is_finite:
                records.append(None)
                continue
            id_, moment = str(meta.id), _time(meta.timestamp, message)
            features = None if self._sent is None else self._sent.read(message, model)
            record = answer_record(id_, moment, features, prediction, of_classes, keys)
            records.append(Record(self._topic, id_.encode(), msgspec.json.encode(record)))
        return records

    def _letter(self, message: Message, error: EventError) -> Record:
        letter = write(message, error, type(self._decoder), self._settings.name)
        return Record(self._dlq, letter.key, letter.value, letter.headers)

    def _require_sound(self, served: Served) -> None:
        """Refuse a model that predicts no finite number even where every value is missing."""
        if self._sound is not None and self._sound.snapshot is served.snapshot:
            return
        model = served.snapshot.model
        if not np.isfinite(model.predict(missing_rows(served.snapshot, rows=1))).all():
            raise NotReady(DIVERGED.format(served.stamp.version))
        self._sound = served


def _headers_of(messages: Sequence[Message]) -> Callable[[int], Headers]:
    def headers(index: int) -> Headers:
        found: Any = messages[index].headers()
        return found or ()

    return headers


def _time(stated: datetime | float | None, message: Message) -> Any:
    """Return when a record happened: what it says, else the time of the record."""
    return message.timestamp()[1] if stated is None else stated
