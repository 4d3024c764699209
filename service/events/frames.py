"""The frame that a schema registry's serialisers write before a payload: 0, and the schema's id."""

FRAME = 5  # bytes: 0, and the id in four


def frame_id(value: bytes) -> int | None:
    """Return the schema id of a frame; None without a whole frame."""
    if len(value) < FRAME or value[0]:
        return None
    return int.from_bytes(value[1:FRAME], "big")


def unexpected_frame(value: bytes) -> str | None:
    """Return the fault of a frame where no registry is set; None for any other value."""
    if value[:1] != b"\0":
        return None
    number = frame_id(value)
    if number is None:
        return f"begins with byte 0 and has {len(value)} of {FRAME} bytes; send one JSON value"
    return f"begins with a schema-registry frame, schema id {number}: set events.schema_registry"
