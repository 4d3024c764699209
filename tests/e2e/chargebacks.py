"""Payments of a Debezium connector in Avro, and chargebacks that come three weeks later, in every
form that a label may have.
"""

from __future__ import annotations

import io
import json
import math
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import yaml
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from kaboost.models.model import Model

README = Path(__file__).parents[2] / "README.md"
T0 = 1_700_000_000.0  # of the first payment, seconds since 1970
DAY = 86_400.0
LATE, JITTER = 21 * DAY, DAY  # of labels; records of both topics are out of order by a day
WAIT, EARLY = 30 * DAY, 2 * DAY
FORMS = {"double": 0.02, "corrected": 0.02, "early": 0.01, "after": 0.005}
UNMATCHED = 0.005  # labels of orders that nobody placed, for each payment
TOMBSTONES = 0.01  # deletes and tombstones, for each payment
COUNTRIES = {"PT": 0.0, "DE": -0.5, "BR": 0.8, "US": 0.2, "NG": 1.2}

PAYMENT = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.payments",
    "fields": [
        {"name": "order_id", "type": "long"},
        {"name": "created_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "weight", "type": "double"},
        {"name": "card", "type": {"type": "record", "name": "Card", "fields": [
            {"name": "country", "type": "string"}, {"name": "age_days", "type": "int"}]}},
        {"name": "device", "type": {"type": "record", "name": "Device", "fields": [
            {"name": "vpn", "type": "boolean"}, {"name": "logins", "type": ["null", "int"]}]}},
    ],
}  # fmt: skip
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.payments",
    "fields": [
        {"name": "before", "type": ["null", PAYMENT], "default": None},
        {"name": "after", "type": ["null", "shop.payments.Value"], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}


class Payment(NamedTuple):
    """One payment, and what becomes of it."""

    id: int
    time: float
    row: dict[str, Any]  # of the Avro record
    weight: float
    fraud: int
    form: str  # of its label: one of FORMS, "plain", or "missing"

    @property
    def labelled(self) -> float:
        """The time of the label that counts at last; that of its expiry where none comes."""
        lags = {"missing": WAIT, "early": -3600.0, "corrected": LATE + 5 * DAY}
        return self.time + lags.get(self.form, WAIT + 4 * DAY if self.form == "after" else LATE)

    @property
    def features(self) -> dict[str, Any]:
        """The row as the model is to see it."""
        card, device = self.row["card"], self.row["device"]
        return {
            "amount": float(self.row["amount"]),
            "card.country": card["country"],
            "card.age_days": card["age_days"],
            "device.vpn": device["vpn"],
            "device.logins": device["logins"],
        }


def payments(count: int, days: float, seed: int, first: int = 0) -> list[Payment]:
    """Draw payments in the order of their time."""
    draw = random.Random(seed)
    return [payment(first + k, T0 + days * DAY * k / count, draw) for k in range(count)]


def payment(number: int, time: float, draw: random.Random) -> Payment:
    """Draw one payment."""
    cents = round(math.exp(draw.gauss(4.0, 1.0)) * 100)
    country, age = draw.choice(list(COUNTRIES)), draw.randrange(2000)
    vpn = draw.random() < 0.2
    logins = None if draw.random() < 0.1 else draw.randrange(50)
    score = -2.0 + COUNTRIES[country] + 0.6 * (math.log(cents) - 8.6) + 1.5 * vpn
    score += 1.0 * (age < 90) - 0.04 * (logins or 0) * (not vpn)
    fraud = int(draw.random() < 1.0 / (1.0 + math.exp(-score)))
    weight = draw.uniform(0.5, 1.5)
    row = {
        "order_id": number,
        "created_at": datetime.fromtimestamp(round(time, 3), UTC),
        "amount": Decimal(cents).scaleb(-2),
        "weight": weight,
        "card": {"country": country, "age_days": age},
        "device": {"vpn": vpn, "logins": logins},
    }
    return Payment(number, round(time, 3), row, weight, fraud, form_of(fraud, draw))


def form_of(fraud: int, draw: random.Random) -> str:
    """Draw how the label of a payment comes; only what is no fraud may stay without one."""
    place = draw.random()
    for form, share in FORMS.items():
        place -= share
        if place < 0.0:
            return form if form != "after" or fraud else "plain"
    return "plain" if fraud or draw.random() < 0.3 else "missing"


class Record(NamedTuple):
    """One record of a topic."""

    time: float  # when it is sent
    order: int  # its partition is chosen by this
    value: bytes | None


class Streams:
    """Both topics' records, each in the order in which they are sent."""

    def __init__(self, stream: list[Payment], client: SchemaRegistryClient, subject: str) -> None:
        text = json.dumps(ENVELOPE)
        number = client.register_schema(subject, Schema(text, "AVRO"))
        self._frame = b"\0" + number.to_bytes(4, "big")
        self._schema = fastavro.parse_schema(ENVELOPE)
        draw = random.Random(5)
        self.unmatched = round(UNMATCHED * len(stream))
        self.tombstones = round(TOMBSTONES * len(stream))
        features = [Record(p.time + draw.uniform(0, JITTER), p.id, self.created(p)) for p in stream]
        features += [self._deleted(draw.choice(stream), draw) for _ in range(self.tombstones)]
        labels = [record for p in stream for record in labels_of(p, draw)]
        for k in range(self.unmatched):
            at = draw.choice(stream).time
            labels.append(Record(at, k, label(-1 - k, 1, at)))
        self.features = sorted(features, key=lambda record: record.time)
        self.labels = sorted(labels, key=lambda record: record.time)

    def created(self, payment: Payment) -> bytes:
        """Write the record of a new payment."""
        return self._write({"before": None, "after": payment.row, "op": "c", "ts_ms": 1})

    def _deleted(self, payment: Payment, draw: random.Random) -> Record:
        """Write a delete, or the tombstone after one; both teach nothing."""
        at = payment.time + draw.uniform(0, 10 * DAY)
        deleted = {"before": payment.row, "after": None, "op": "d", "ts_ms": 1}
        return Record(at, payment.id, self._write(deleted) if draw.random() < 0.5 else None)

    def _write(self, value: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, self._schema, value)
        return self._frame + stream.getvalue()


def labels_of(payment: Payment, draw: random.Random) -> Iterator[Record]:
    """Write the labels of one payment."""
    if payment.form == "missing":
        return
    at = payment.labelled
    sent = at + draw.uniform(0, JITTER)
    if payment.form == "corrected":
        early = payment.time + LATE
        sooner = early + draw.uniform(0, JITTER)
        yield Record(sooner, payment.id, label(payment.id, 1 - payment.fraud, early))
    if payment.form == "double":
        yield Record(sent + 60.0, payment.id, label(payment.id, payment.fraud, at + 60.0))
    if payment.form == "early":
        sent = at
    yield Record(sent, payment.id, label(payment.id, payment.fraud, at))


def label(number: int, fraud: int, time: float) -> bytes:
    """Write one label."""
    at = datetime.fromtimestamp(time, UTC).isoformat()
    return json.dumps({"order_id": number, "fraud": fraud, "at": at}).encode()


def readme_settings() -> str:
    """Return the YAML of the README's section about late labels as it stands."""
    section = r"^## Labels that come later.+?^```yaml\n(.+?)^```"
    found = re.search(section, README.read_text(), re.M | re.S)
    assert found
    return found[1]


def readme_topics() -> tuple[str, str]:
    """Return the names of the two topics in these lines."""
    settings = yaml.safe_load(readme_settings())
    return settings["kafka"]["topic"], settings["labels"]["topic"]


def at_once(stream: list[Payment], until: float) -> Model:
    """Return the model of a run that had all labels at once, in the order of labels, to a time."""
    kinds = {"amount": "number", "card.country": "category", "card.age_days": "number"}
    model = Model("binary", features={**kinds, "device.vpn": "boolean", "device.logins": "number"})
    ordered = sorted((p for p in stream if p.labelled <= until), key=lambda p: p.labelled)
    for first in range(0, len(ordered), 1000):
        part = ordered[first : first + 1000]
        rows, weights = [p.features for p in part], [p.weight for p in part]
        model.learn_many(rows, [p.fraud for p in part], weights)
    return model


def log_loss(model: Model, stream: list[Payment]) -> float:
    """Return the mean log-loss of a model's predictions."""
    probabilities = model.predict_proba_many([p.features for p in stream])
    of_label = probabilities[np.arange(len(stream)), [p.fraud for p in stream]]
    return float(-np.log(np.maximum(of_label, 1e-15)).mean())
