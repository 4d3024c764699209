"""The tensors of the Open Inference Protocol v2: JSON or binary, to columns of values and back."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from kaboost.service.errors import RequestError
from kaboost.service.events.diagnosis import shorten, show, unknown
from kaboost.service.http.predict import too_many

BYTES = "BYTES"
DTYPES = {
    "BOOL": "?",
    **{f"UINT{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    **{f"INT{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"FP{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
KINDS = {"number": "FP64", "boolean": "BOOL"}  # of features; texts for all others
ONE_FEATURE = "an input is one feature, so send [rows] or [rows, 1]"
LENGTH = struct.Struct("<I")  # of an element of BYTES


class Parameters(msgspec.Struct, frozen=True):
    """Those of the binary extension; others are ignored."""

    binary_data_size: int | None = None  # of an input
    binary_data: bool | None = None  # whether an output is wanted so
    binary_data_output: bool = False  # whether all outputs are


NO_PARAMETERS = Parameters()  # one for all: a body can hold half a million outputs


class Input(msgspec.Struct):
    """A feature: one value for each row."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: Parameters = NO_PARAMETERS


class Wanted(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: Parameters = NO_PARAMETERS


class Request(msgspec.Struct):
    """The body of an inference request, or its JSON part."""

    inputs: list[Input]
    id: str | None = None
    outputs: list[Wanted] | None = None
    parameters: Parameters = NO_PARAMETERS


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


def check_inputs(inputs: Sequence[Input], known: Sequence[str] | None, max_rows: int) -> int:
    """Return how many rows the inputs have, before any value is decoded.

    Parameters
    ----------
    known
        The features; None where others are ignored.
    max_rows
        More are refused with 413.
    """
    names: set[str] = set()
    features = None if known is None else frozenset(known)
    for k, each in enumerate(inputs):
        where = f"#/inputs/{k}"
        if features is not None and each.name not in features:
            detail = f"{show(each.name)} is {unknown(each.name, tuple(known or ()))}"
            raise RequestError([(f"{where}/name", detail)])
        if each.name in names:
            raise RequestError(
                [(f"{where}/name", f"{shorten(each.name)} comes twice; send it once")]
            )
        names.add(each.name)
        if each.datatype != BYTES and each.datatype not in DTYPES:
            listed = ", ".join([*DTYPES, BYTES])
            detail = f"{show(each.datatype)} is not one of {listed}"
            raise RequestError([(f"{where}/datatype", detail)])
        _check_shape(each, where, max_rows)
        if each.shape[0] != inputs[0].shape[0]:
            detail = f"{each.shape[0]} rows, but the first input has {inputs[0].shape[0]}"
            raise RequestError([(f"{where}/shape", f"{detail}; send as many values of each")])
    if not inputs:
        raise RequestError([("#/inputs", "there is none")])
    return inputs[0].shape[0]


def _check_shape(of: Input, where: str, max_rows: int) -> None:
    if not 1 <= len(of.shape) <= 2 or of.shape[1:] not in ([], [1]):
        raise RequestError([(f"{where}/shape", ONE_FEATURE)])
    if of.shape[0] < 0:
        raise RequestError([(f"{where}/shape", f"{of.shape[0]} rows; {ONE_FEATURE}")])
    if of.shape[0] > max_rows:
        raise too_many("rows", of.shape[0], max_rows)


def read_columns(inputs: Sequence[Input], binary: bytes) -> dict[str, list[Any]]:
    """Return the values of each feature of checked inputs, None where one is missing."""
    columns: dict[str, list[Any]] = {}
    at = 0
    for k, each in enumerate(inputs):
        where = f"#/inputs/{k}"
        size = each.parameters.binary_data_size
        if size is not None:
            part, at = binary[at : at + size], at + size
            values = _unpack(part, size, each, where)
        else:
            values = _flat(each.data or [])
        if each.shape[0] != len(values):
            detail = f"it does not hold the {len(values)} values that were sent"
            raise RequestError([(f"{where}/shape", detail)])
        if each.datatype == "BOOL":
            values = [bool(value) if value in (0, 1) else value for value in values]
        columns[each.name] = [None if value != value else value for value in values]
    if at != len(binary):
        detail = f"{len(binary)} bytes follow the JSON, binary_data_size adds up to {at}"
        raise RequestError([("#/inputs", detail)])
    return columns


def _flat(data: Sequence[Any]) -> list[Any]:
    """Flatten rows of one value each, `[[1], [2]]`, which the protocol allows."""
    rows = (value if isinstance(value, list) else [value] for value in data)
    return [inner for row in rows for inner in row]


def _unpack(part: bytes, size: int, of: Input, where: str) -> list[Any]:
    """Decode the bytes of one tensor, of little endian; no more values than its rows."""
    faulty = RequestError([(where, f"its {size} bytes are not {of.datatype} of its shape")])
    if size < 0 or len(part) != size:
        raise faulty
    if of.datatype != BYTES:
        dtype = np.dtype(DTYPES[of.datatype])
        if size != dtype.itemsize * of.shape[0]:
            raise faulty
        values: list[Any] = np.frombuffer(part, dtype).tolist()
        return values
    found, at = [], 0
    for _ in range(of.shape[0]):
        end = at + LENGTH.size
        if end > size or (end + LENGTH.unpack_from(part, at)[0]) > size:
            raise faulty
        stop = end + LENGTH.unpack_from(part, at)[0]
        try:
            found.append(part[end:stop].decode())
        except UnicodeDecodeError as err:
            raise RequestError([(where, "a text is not UTF-8")]) from err
        at = stop
    if at != size:
        raise faulty
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
    has_shares = predictions[0].get("probabilities") if predictions else kind != "regression"
    if has_shares:
        shares = [list(each["probabilities"].values()) for each in predictions]
        flat = [value for row in shares for value in row]
        made.append(Output("probability", "FP64", [n], [e["probability"] for e in predictions]))
        made.append(Output("probabilities", "FP64", [n, len(labels)], flat))
    return made
