"""Records in MessagePack as plain values."""

from typing import Any, NoReturn

import msgspec

from kaboost.service.events.reader import fault

REMEDY = "send one MessagePack value"


def decode_msgpack(value: bytes) -> object:
    """Return a MessagePack value; keys that are whole numbers become text.

    A timestamp is a datetime, binary is bytes; other extension types are faults.
    """
    try:
        return _with_text_keys(_DECODER.decode(value))
    except msgspec.DecodeError as err:
        raise fault(f"not MessagePack: {err}", REMEDY) from err


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in value]
    return value


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise fault(f"a key of type {type(key).__name__}", "send text or whole numbers as keys")


def _refuse_extension(code: int, data: memoryview) -> NoReturn:
    raise fault(f"extension type {code}", "send plain values; only timestamps are extensions here")


_DECODER = msgspec.msgpack.Decoder(ext_hook=_refuse_extension)
