"""Schemas by id from a schema registry, with confluent-kafka's client."""

import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from cachetools import LRUCache
from confluent_kafka.schema_registry import SchemaRegistryClient, SchemaRegistryError
from pydantic import SecretStr

from kaboost.service.errors import ConfigError, EventError, RegistryAway
from kaboost.service.events.diagnosis import shorten

DEFAULTS = {"timeout": 5, "max.retries": 0}  # the caller waits and asks again
MAX_SCHEMAS = 1000
MAX_REFERENCES = 1000  # of one schema, with those of the schemas that it references
UNKNOWN_SECONDS = 10.0  # that an id counts as unknown before the registry is asked again
MAX_ID = 2**31 - 1  # of a registry; asked for a larger one, some answer with a fault of their own
UNKNOWN_CODES = range(40400, 40500)  # the registry's own; a wrong URL gives a bare 404


class RegisteredSchema(NamedTuple):
    """A schema as it is registered."""

    id: int
    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: Mapping[str, str]  # name → text, those needed by others first


class _Unknown(NamedTuple):
    error: EventError
    until: float


class Registry:
    """Fetch schemas by id and keep them.

    Parameters
    ----------
    settings
        `events.schema_registry`: any keys of the client.
    topic
        Where the records are from, for messages.
    clock
        Seconds that only grow.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Any = _connect(settings)
        weakref.finalize(self, self._client.close)
        self._url = str(settings["url"])
        self._topic = topic
        self._clock = clock
        self._schemas: LRUCache[int, RegisteredSchema | _Unknown] = LRUCache(MAX_SCHEMAS)
        self._batch: dict[int, RegisteredSchema | _Unknown] = {}

    def prepare(self, ids: Iterable[int]) -> None:
        """Fetch these schemas; until the next call `schema` gives them without asking."""
        self._batch = {number: self._lookup(number) for number in sorted(set(ids))}

    def schema(self, number: int) -> RegisteredSchema:
        """Return the schema of an id.

        Raises
        ------
        EventError
            With the code `schema_id`: the registry has no such schema.
        RegistryAway
            If it was not fetched before and the registry does not answer.
        """
        found = self._batch.get(number)
        if found is None:
            found = self._lookup(number)
        if isinstance(found, _Unknown):
            raise found.error
        return found

    def _lookup(self, number: int) -> RegisteredSchema | _Unknown:
        found = self._schemas.get(number)
        if found is None or (isinstance(found, _Unknown) and found.until < self._clock()):
            found = self._fetch(number)
            self._schemas[number] = found
        return found

    def _fetch(self, number: int) -> RegisteredSchema | _Unknown:
        if number > MAX_ID:
            return self._unknown(number, f"ids end at {MAX_ID:,}")
        try:
            schema = self._client.get_schema(number)
            kind = schema.schema_type or "AVRO"
            form = None
            if kind == "PROTOBUF" and not is_base64(schema.schema_str or ""):
                form = "serialized"
                self._client.clear_caches()  # they do not tell one form from the other
                schema = self._client.get_schema(number, fmt=form)
            references: dict[str, str] = {}
            self._fetch_references(schema, form, references)
        except SchemaRegistryError as err:
            if err.http_status_code == 404 and err.error_code in UNKNOWN_CODES:
                return self._unknown(number, str(err.error_message))
            raise self._away(f"HTTP status {err.http_status_code}: {err.error_message}") from err
        except Exception as err:  # of httpx, TLS, OAuth: no schema is known to be missing
            raise self._away(f"{type(err).__name__}: {err}") from err
        finally:
            self._client.clear_caches()  # bounded here, not there
        return RegisteredSchema(number, kind, schema.schema_str or "", references)

    def _fetch_references(self, schema: Any, form: str | None, found: dict[str, str]) -> None:
        for reference in schema.references or ():
            name = str(reference.name)
            if name in found or len(found) >= MAX_REFERENCES:
                continue
            version = self._client.get_version(
                str(reference.subject), int(reference.version or 0), True, form
            )
            self._fetch_references(version.schema, form, found)
            found[name] = version.schema.schema_str or ""

    def _unknown(self, number: int, why: str) -> _Unknown:
        message = (
            f"schema id {number}: unknown to the registry {self._url} "
            f"({shorten(why)}); register the schema there, or set "
            "events.schema_registry.url to the registry that the producer uses"
        )
        return _Unknown(EventError("schema_id", message), self._clock() + UNKNOWN_SECONDS)

    def _away(self, detail: str) -> RegistryAway:
        return RegistryAway(
            f"{self._topic}: the schema registry {self._url} gives no schema "
            f"({shorten(detail, 200)}); start it, or correct events.schema_registry"
        )


def is_base64(text: str) -> bool:
    """Return whether a Protobuf schema is a descriptor in base64, rather than the .proto file."""
    return bool(text) and not (set(text) & set(" \t;{"))


def _connect(settings: Mapping[str, Any]) -> SchemaRegistryClient:
    plain = {
        k: v.get_secret_value() if isinstance(v, SecretStr) else v for k, v in settings.items()
    }
    try:
        return SchemaRegistryClient({**DEFAULTS, **plain})
    except (ValueError, TypeError, OSError) as err:
        raise ConfigError(
            f"events.schema_registry: {err}; its keys are those of confluent-kafka's "
            "SchemaRegistryClient"
        ) from err
