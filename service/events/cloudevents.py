"""Records that are CloudEvents 1.0: structured (one JSON object) or binary (`ce_` headers)."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from kaboost.service.errors import EventError
from kaboost.service.events.decoder import Headers
from kaboost.service.events.diagnosis import shorten, show
from kaboost.service.events.json_reader import decode_json
from kaboost.service.events.reader import Reader, fault, present

PREFIX = "ce_"
REQUIRED = ("id", "source", "type")  # besides specversion
OPTIONAL = ("time", "subject")
BATCH = "application/cloudevents-batch"
STRUCTURED = "application/cloudevents"
REMEDY = "send CloudEvents 1.0, or set events.envelope: none"


class CloudEventsReader:
    """Read a CloudEvent: its attributes by name, and its data as another reader reads it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch what reading these takes."""
        self._reader.prepare(values)

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the attributes and `data` of an event in either mode."""
        attributes, content_type = _attributes(headers)
        if content_type.startswith(BATCH):
            raise fault(
                f"content-type: {shorten(content_type)}: several events in a record",
                "send every event as a record of its own",
            )
        if "specversion" in attributes and not content_type.startswith(STRUCTURED):
            event = {**attributes, "data": None}
            _check(event, PREFIX, "header")
            event["data"] = self._reader.read(present(value), headers)
            return _complete(event)
        return self._structured(present(value), headers)

    def _structured(self, value: bytes, headers: Headers) -> object:
        event = decode_json(value)
        if not isinstance(event, Mapping):
            raise fault(f"{show(event)} is no CloudEvent", REMEDY, "schema")
        _check(event, "", "attribute")
        if event.get("data") is None:
            return _complete({**event, "data": self._read_base64(event, headers)})
        return _complete(event)

    def _read_base64(self, event: Mapping[str, Any], headers: Headers) -> object:
        text = event.get("data_base64")
        if text is None:
            raise fault(
                "data: is missing from the CloudEvent", "send the event as its data", "schema"
            )
        try:
            data = base64.b64decode(text, validate=True)
        except (ValueError, TypeError) as err:
            raise fault(f"data_base64: is not base64: {err}", "send base64 there") from err
        return self._reader.read(data, headers)


def _attributes(headers: Headers) -> tuple[dict[str, Any], str]:
    """Return the attributes in `ce_` headers, and the content type; of a repeated one the last."""
    found: dict[str, Any] = {}
    content_type = ""
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(PREFIX):
            found[lower[len(PREFIX) :]] = _text(name, value)
        elif lower == "content-type":
            content_type = _text(name, value) or ""
    if content_type and found:
        found.setdefault("datacontenttype", content_type)
    return found, content_type


def _text(name: str, value: bytes | str | None) -> str | None:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as err:
        raise fault(f"{shorten(name)}: the header is not UTF-8", "send it in UTF-8") from err


def _check(event: Mapping[str, Any], prefix: str, what: str) -> None:
    """Raise for an event without the attributes that every CloudEvent has."""
    version = event.get("specversion")
    if version is None:
        raise fault(f"{prefix}specversion: the {what} is missing", REMEDY, "schema")
    if version != "1.0":
        raise fault(
            f"{prefix}specversion: {show(version)} where 1.0 belongs", "send CloudEvents 1.0"
        )
    for name in REQUIRED:
        if not isinstance(event.get(name), str) or not event[name]:
            raise _wrong(event, name, prefix, what)
    for name in OPTIONAL:
        if not isinstance(event.get(name), str | None):
            raise _wrong(event, name, prefix, what)


def _wrong(event: Mapping[str, Any], name: str, prefix: str, what: str) -> EventError:
    value = event.get(name)
    detail = f"the {what} is missing" if value is None else f"{show(value)} where text belongs"
    return fault(f"{prefix}{name}: {detail}", f"send {name} as text", "schema")


def _complete(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with the optional attributes as null."""
    return {**dict.fromkeys(OPTIONAL), **event}
