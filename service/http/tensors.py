"""The tensors of the Open Inference Protocol v2: JSON or binary, to columns of values and back."""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from kaboost.service.errors import RequestError

BYTES = "BYTES"
DTYPES = {
    "BOOL": "?",
    **{f"UINT{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
KINDS = {"number": "FP64", "boolean": "BOOL"}  # of features; texts for all others
LENGTH = struct.Struct("<I")  # of an element of BYTES


class Parameters(msgspec.Struct):
    """Those of the binary extension; others are ignored."""

    binary_data_size: int | None = None  # of an input
    binary_data: bool | None = None  # whether an output is wanted so
    binary_data_output: bool = False  # whether all outputs are


class Input(msgspec.Struct):
    """A feature: one value for each row."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: Parameters = msgspec.field(default_factory=Parameters)


class Wanted(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: Parameters = msgspec.field(default_factory=Parameters)


class Request(msgspec.Struct):
    """The body of an inference request, or its JSON part."""

    inputs: list[Input]
    id: str | None = None
    outputs: list[Wanted] | None = None
    parameters: Parameters = msgspec.field(default_factory=Parameters)


class Output(msgspec.Struct, omit_defaults=True):
    """A tensor of the response."""

    name: str
    datatype: str
    shape: list[int]
    data: list[Any] | None = None
    parameters: dict[str, int] = {}


def datatype_of(kind: str) -> str:
    """Return the datatype of a feature's tensor."""
    return KINDS.get(kind, BYTES)


def read_columns(inputs: Sequence[Input], binary: bytes) -> tuple[dict[str, list[Any]], int]:
    """Return the values of each feature, None where one is missing, and how many rows there are."""
    columns: dict[str, list[Any]] = {}
    at = 0
    for k, each in enumerate(inputs):
        where = f"#/inputs/{k}"
        if each.name in columns:
            raise RequestError([(f"{where}/name", f"{each.name} comes twice; send it once")])
        if each.datatype != BYTES and each.datatype not in DTYPES:
            known = ", ".join([*DTYPES, BYTES])
            raise RequestError([(f"{where}/datatype", f"{each.datatype!r} is not one of {known}")])
        size = each.parameters.binary_data_size
        if size is not None:
            part, at = binary[at : at + size], at + size
            values = _unpack(part, size, each, where)
        else:
            values = _flat(each.data or [])
        columns[each.name] = _checked(values, each, where)
    if at != len(binary):
        detail = f"{len(binary)} bytes follow the JSON, binary_data_size adds up to {at}"
        raise RequestError([("#/inputs", detail)])
    rows = {name: len(values) for name, values in columns.items()}
    if len(set(rows.values())) != 1:
        detail = f"send as many values of each input, not {rows}" if rows else "there is none"
        raise RequestError([("#/inputs", detail)])
    return columns, next(iter(rows.values()))


def _checked(values: list[Any], of: Input, where: str) -> list[Any]:
    """Check the shape, and return NaN as missing."""
    if not of.shape or min(of.shape) < 0 or math.prod(of.shape) != len(values):
        detail = f"{of.shape} does not hold the {len(values)} values that were sent"
        raise RequestError([(f"{where}/shape", detail)])
    if math.prod(of.shape[1:]) != 1 and len(values):
        detail = f"{of.shape}: an input is one feature, so send [rows] or [rows, 1]"
        raise RequestError([(f"{where}/shape", detail)])
    if of.datatype == "BOOL":
        values = [bool(value) if value in (0, 1) else value for value in values]
    return [None if value != value else value for value in values]


def _flat(data: Sequence[Any]) -> list[Any]:
    """Flatten rows of one value each, `[[1], [2]]`, which the protocol allows."""
    rows = (value if isinstance(value, list) else [value] for value in data)
    return [inner for row in rows for inner in row]


def _unpack(part: bytes, size: int, of: Input, where: str) -> list[Any]:
    """Decode the bytes of one tensor, of little endian."""
    faulty = RequestError([(where, f"its {size} bytes are not {of.datatype} of shape {of.shape}")])
    if size < 0 or len(part) != size:
        raise faulty
    if of.datatype != BYTES:
        dtype = np.dtype(DTYPES[of.datatype])
        if size % dtype.itemsize:
            raise faulty
        values: list[Any] = np.frombuffer(part, dtype).tolist()
        return values
    found, at = [], 0
    while at < size:
        end = at + LENGTH.size
        if end > size or (end + LENGTH.unpack_from(part, at)[0]) > size:
            raise faulty
        stop = end + LENGTH.unpack_from(part, at)[0]
        try:
            found.append(part[end:stop].decode())
        except UnicodeDecodeError as err:
            raise RequestError([(where, "a text is not UTF-8")]) from err
        at = stop
    return found


def pack(datatype: str, values: Sequence[Any]) -> bytes:
    """Encode a tensor's values, of little endian."""
    if datatype != BYTES:
        return np.asarray(values, DTYPES[datatype]).tobytes()
    texts = [str(value).encode() for value in values]
    return b"".join(LENGTH.pack(len(text)) + text for text in texts)


def label_type(labels: Sequence[Any], kind: str) -> str:
    """Return the datatype of predictions."""
    if kind == "regression":
        return "FP64"
    if labels and all(isinstance(label, bool) for label in labels):
        return "BOOL"
    if labels and all(isinstance(label, int) for label in labels):
        return "INT64"
    return BYTES


def outputs_of(
    predictions: Sequence[Mapping[str, Any]], labels: Sequence[Any], kind: str
) -> list[Output]:
    """Make all outputs: predictions, scores, and of classes their probabilities."""
    n, datatype = len(predictions), label_type(labels, kind)
    values = [each["prediction"] for each in predictions]
    if datatype == BYTES:
        values = ["" if value is None else str(value) for value in values]
    made = [Output("prediction", datatype, [n], values)]
    made.append(Output("score", "FP64", [n], [each["score"] for each in predictions]))
    if predictions and predictions[0].get("probabilities"):
        shares = [list(each["probabilities"].values()) for each in predictions]
        flat = [value for row in shares for value in row]
        made.append(Output("probability", "FP64", [n], [e["probability"] for e in predictions]))
        made.append(Output("probabilities", "FP64", [n, len(shares[0])], flat))
    return made
