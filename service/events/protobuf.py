"""Records in Protobuf as plain values, by classes that are made from descriptors.

confluent-kafka's ProtobufDeserializer takes a compiled class, which nobody has for a topic of
others: the classes are made as it makes them from the registry's descriptors.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from kaboost.service.events.protobuf_values import mismatch, to_plain
from kaboost.service.events.reader import Decode, fault

MAX_INDEXES = 32  # of a message in messages
MAX_VARINT = 10  # bytes
# Files that come with the libraries, wherever a schema imports them.
LIBRARY_FILES = (
    (re.compile(r"google/(protobuf|type)/[a-z_]+\.proto"), ""),
    (
        re.compile(r"confluent/(meta|type/decimal|types/decimal)\.proto"),
        "confluent_kafka.schema_registry.",
    ),
)


class ProtobufDecoder:
    """Decode payloads of one message type."""

    def __init__(self, descriptor: Descriptor, place: str) -> None:
        self._class: Any = GetMessageClass(descriptor)
        self._place = f"{place}: {descriptor.full_name}"

    def __call__(self, payload: bytes) -> object:
        """Return the fields by name."""
        message = self._class()
        try:
            message.ParseFromString(payload)
        except DecodeError as err:
            raise fault(
                f"{self._place}: not Protobuf: {err}", "send the bytes of this message type"
            ) from err
        where = mismatch(message)
        if where:
            raise fault(
                f"{self._place}: {where}", "send the fields with the types that the schema declares"
            )
        if not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors()[:5])
            raise fault(f"{self._place}: required fields are missing: {missing}", "send them")
        try:
            return to_plain(message)
        except (ValueError, OverflowError, ArithmeticError) as err:
            raise fault(
                f"{self._place}: {err}", "send times and decimals within their range"
            ) from err


class IndexedDecoder:
    """Decode payloads that begin with the indexes of their message in the file of the schema."""

    def __init__(self, pool: DescriptorPool, file: FileDescriptorProto, place: str) -> None:
        self._pool = pool
        self._file = file
        self._place = place
        self._decoders: dict[tuple[int, ...], Decode] = {}

    def __call__(self, payload: bytes) -> object:
        """Return the fields by name."""
        indexes, start = read_indexes(payload, self._place)
        decode = self._decoders.get(indexes)
        if decode is None:
            descriptor = self._pool.FindMessageTypeByName(self._message(indexes))
            decode = self._decoders[indexes] = ProtobufDecoder(descriptor, self._place)
        return decode(payload[start:])

    def _message(self, indexes: tuple[int, ...]) -> str:
        """Return the full name of a message."""
        below: Sequence[Any] = self._file.message_type
        names = [self._file.package] if self._file.package else []
        for index in indexes:
            if not 0 <= index < len(below):
                raise fault(
                    f"{self._place}: message index {list(indexes)} where the schema has "
                    f"{len(below)} messages",
                    "send the frame of this schema's serializer",
                )
            names.append(below[index].name)
            below = below[index].nested_type
        return ".".join(names)


class SkipIndexes:
    """Decode the payload behind the indexes, where the type is set."""

    def __init__(self, decode: Decode, place: str) -> None:
        self._decode = decode
        self._place = place

    def __call__(self, payload: bytes) -> object:
        """Return the fields by name."""
        return self._decode(payload[read_indexes(payload, self._place)[1] :])


def compile_protobuf(text: str, references: Mapping[str, str], place: str) -> Decode:
    """Make a decoder of framed payloads from descriptors in base64.

    Raises
    ------
    EventError
        With the code `format`, if the registry gave no descriptors.
    """
    try:
        files = [_file(name, other) for name, other in references.items()]
        main = _file("schema.proto", text)
        return IndexedDecoder(make_pool([*files, main]), main, place)
    except (ValueError, TypeError, DecodeError, KeyError) as err:
        raise fault(
            f"{place}: the registry gives no descriptor of this Protobuf schema ({err})",
            "set events.schema_file to a descriptor set (protoc --include_imports "
            "--descriptor_set_out=FILE) and events.message_type",
        ) from err


def load_descriptor(content: bytes, message_type: str) -> Descriptor:
    """Return the descriptor of a message in a descriptor set.

    Raises
    ------
    ValueError
        Naming what the file lacks.
    """
    files = FileDescriptorSet()
    try:
        files.ParseFromString(content)
    except DecodeError as err:
        raise ValueError(f"is no descriptor set ({err})") from err
    if not files.file:
        raise ValueError("is an empty descriptor set")
    try:
        return make_pool(files.file).FindMessageTypeByName(message_type)
    except KeyError as err:
        raise ValueError(f"has no message {message_type}; it has {_messages(files)}") from err
    except TypeError as err:
        raise ValueError(f"cannot be used: {err}; write it with --include_imports") from err


def make_pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """Return a pool of these files and of those that they import from the libraries."""
    pool = DescriptorPool()
    by_name = {file.name: file for file in files}
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        file = by_name.get(name) or _library_file(name)
        for dependency in file.dependency:
            add(dependency)
        pool.Add(file)

    for name in by_name:
        add(name)
    return pool


def read_indexes(payload: bytes, place: str) -> tuple[tuple[int, ...], int]:
    """Return the indexes before a framed message, and where the message begins."""
    count, at = _zigzag(payload, 0, place)
    if not count:
        return (0,), at  # the first message of the file, written short
    if not 0 < count <= MAX_INDEXES:
        raise fault(f"{place}: {count} message indexes", "send at most 32, as serializers do")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(payload, at, place)
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(payload: bytes, at: int, place: str) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(payload[at : at + MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at + shift + 1
    raise fault(f"{place}: the message indexes are cut off", "send the whole record")


def _file(name: str, text: str) -> FileDescriptorProto:
    file = FileDescriptorProto()
    file.ParseFromString(base64.b64decode(text, validate=True))
    file.name = name
    return file


def _library_file(name: str) -> FileDescriptorProto:
    for pattern, package in LIBRARY_FILES:
        if pattern.fullmatch(name):
            module = package + name.removesuffix(".proto").replace("/", ".") + "_pb2"
            file = FileDescriptorProto()
            import_module(module).DESCRIPTOR.CopyToProto(file)
            return file
    raise TypeError(f"{name} is imported and not there")


def _messages(files: FileDescriptorSet) -> str:
    names = [
        f"{file.package}.{message.name}" if file.package else message.name
        for file in files.file
        for message in file.message_type
        if not file.name.startswith("google/")
    ]
    return ", ".join(names[:10]) or "no messages"
