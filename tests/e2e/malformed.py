"""Thirty kinds of events that cannot be used, each with the code its dead letter must carry."""

from __future__ import annotations

import json
from collections.abc import Callable

GOOD = {
    "date": 0.0,
    "day": 2.0,
    "period": 0.5,
    "nswprice": 0.05,
    "nswdemand": 0.4,
    "vicprice": 0.003,
    "vicdemand": 0.4,
    "transfer": 0.4,
}


def event(**changes: object) -> bytes:
    return json.dumps({"features": GOOD, "label": "UP", **changes}).encode()


def features(**changes: object) -> bytes:
    return event(features={**GOOD, **changes})


def raw(text: str) -> bytes:
    return event().replace(b'"period": 0.5', b'"period": ' + text.encode())


KINDS: tuple[tuple[str, Callable[[int], bytes | None]], ...] = (
    ("null_value", lambda k: None),
    ("too_large", lambda k: event(pad="x" * 20_000)),
    ("json", lambda k: b""),
    ("json", lambda k: b"not json %d" % k),
    ("json", lambda k: event()[:-1]),
    ("json", lambda k: event() + b"}"),
    ("json", lambda k: b"\xff\xfe" + event()),
    ("json", lambda k: raw("NaN")),
    ("json", lambda k: raw("-Infinity")),
    ("json", lambda k: raw("01")),
    ("schema", lambda k: b"[]"),
    ("schema", lambda k: b"%d" % k),
    ("schema", lambda k: b"null"),
    ("schema", lambda k: json.dumps({"features": GOOD}).encode()),
    ("schema", lambda k: json.dumps({"label": "UP"}).encode()),
    ("schema", lambda k: event(features=[1, 2, 3])),
    ("weight", lambda k: event(weight=[k])),
    ("label", lambda k: event(label=[k, "UP"])),
    ("label", lambda k: event(label=["UP"])),
    ("label", lambda k: event(label="SIDEWAYS")),
    ("label", lambda k: event(label=None)),
    ("label", lambda k: event(label={"UP": 1})),
    ("weight", lambda k: event(weight=-1)),
    ("weight", lambda k: event(weight="2")),
    ("feature_unknown", lambda k: features(colour="blue")),
    ("feature_unknown", lambda k: features(**{f"extra{k}": 1})),
    ("feature_type", lambda k: features(period="0.5")),
    ("feature_type", lambda k: features(day=[2])),
    ("not_finite", lambda k: raw("1e999")),
    ("not_finite", lambda k: features(nswprice=-1.5e308)),
)


def malformed(count: int) -> list[tuple[str, bytes | None]]:
    """Return `count` events over all kinds in turn."""
    return [(code, make(k)) for k, (code, make) in zip(range(count), KINDS * count, strict=False)]
