"""Records with a schema registry's frame: byte 0, the id of the schema, the payload."""

from collections.abc import Callable, Mapping, Sequence

from cachetools import LRUCache

from kaboost.service.events.decoder import Headers
from kaboost.service.events.frames import FRAME, frame_id
from kaboost.service.events.reader import Decode, fault, present
from kaboost.service.events.registry import MAX_SCHEMAS, RegisteredSchema, Registry

Compile = Callable[[RegisteredSchema], Decode]


class FramedReader:
    """Read records by the schema that their frame names.

    Parameters
    ----------
    registry
        Where the schemas are.
    compilers
        Kind of schema to what makes a decoder of the payload from it.
    plain
        Decodes records without a frame; None: they are faults.
    """

    def __init__(
        self, registry: Registry, compilers: Mapping[str, Compile], plain: Decode | None
    ) -> None:
        self._registry = registry
        self._compilers = compilers
        self._plain = plain
        self._decoders: LRUCache[int, Decode] = LRUCache(MAX_SCHEMAS)

    def prepare(self, values: Sequence[bytes | None]) -> None:
        """Fetch the schemas that these values name."""
        ids = (frame_id(value) for value in values if value is not None)
        self._registry.prepare(number for number in ids if number is not None)

    def read(self, value: bytes | None, headers: Headers) -> object:
        """Return the record."""
        value = present(value)
        number = frame_id(value)
        if number is None:
            return self._read_unframed(value)
        decode = self._decoders.get(number)
        if decode is None:
            decode = self._decoders[number] = self._compile(number)
        return decode(value[FRAME:])

    def _compile(self, number: int) -> Decode:
        schema = self._registry.schema(number)
        compile_ = self._compilers.get(schema.kind)
        if compile_ is None:
            known = ", ".join(self._compilers)
            raise fault(
                f"schema id {number}: a schema of type {schema.kind}, where {known} belongs",
                "set events.format: auto",
            )
        return compile_(schema)

    def _read_unframed(self, value: bytes) -> object:
        if value[:1] == b"\0":
            raise fault(
                f"a schema-registry frame has {FRAME} bytes, the value {len(value)}",
                "send the whole record",
            )
        if self._plain is None:
            begins = f"begins with byte 0x{value[0]:02x}" if value else "is empty"
            raise fault(
                f"no schema-registry frame: the value {begins}, a frame with 0x00",
                "send it with the registry's serializer, or set events.schema_file instead of "
                "events.schema_registry",
            )
        return self._plain(value)
