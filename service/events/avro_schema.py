"""What an Avro schema is checked for before bytes are decoded with it."""

from collections.abc import Callable, Mapping
from typing import Any

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
# Connect writes its types, and Debezium's, as a name next to a plain number.
LOGICAL_TYPES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "time-millis",
    "io.debezium.time.MicroTime": "time-micros",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
DECIMAL = "kaboost-decimal"  # read by avro.py: fastavro takes minutes for one of a megabyte
Named = Mapping[str, Any]


def with_logical_types(schema: Any) -> Any:
    """Return the schema with Avro's logical type where Connect's name stands for one."""
    if isinstance(schema, list):
        return [with_logical_types(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: with_logical_types(value) for key, value in schema.items() if key != "default"}
    if "default" in schema:
        out["default"] = schema["default"]
    if out.get("logicalType") == "decimal":
        out["logicalType"] = DECIMAL
    logical = LOGICAL_TYPES.get(str(schema.get("connect.name")))
    if logical and "logicalType" not in out and out.get("type") in ("int", "long"):
        out["logicalType"] = logical
    return out


def is_recursive(schema: Any, named: Named) -> bool:
    """Return whether a value may hold another of its own type, and so be nested without limit."""
    open_: set[str] = set()
    done: set[str] = set()

    def visit(node: Any) -> bool:
        name = _name(node)
        if name is None:
            return any(map(visit, _below(node)))
        if name in open_:
            return True
        if name in done or name not in named:
            return False
        open_.add(name)
        found = any(map(visit, _below(named[name])))
        open_.discard(name)
        done.add(name)
        return found

    return visit(schema)


def endless_array(schema: Any, named: Named) -> str | None:
    """Return a description of an array whose items take no bytes, where there is one."""
    found: list[str] = []

    def visit(node: Any) -> None:
        is_array = isinstance(node, dict) and node.get("type") == "array"
        if is_array and _is_empty(node["items"], named, frozenset()):
            found.append(f"items {_name(node['items']) or node['items']!r}"[:60])

    _walk(schema, named, visit)
    return found[0] if found else None


def _walk(schema: Any, named: Named, visit: Callable[[Any], None]) -> None:
    """Visit every type once."""
    seen: set[str] = set()

    def step(node: Any) -> None:
        name = _name(node)
        if name is not None:
            if name in seen or name not in named:
                return
            seen.add(name)
            node = named[name]
        visit(node)
        for below in _below(node):
            step(below)

    step(schema)


def _is_empty(node: Any, named: Named, open_: frozenset[str]) -> bool:
    """Return whether a value of this type takes no bytes."""
    name = _name(node)
    if name is not None:
        if name in open_ or name not in named:
            return False
        node, open_ = named[name], open_ | {name}
    kind = node.get("type") if isinstance(node, dict) else node
    if isinstance(node, list):
        return False
    if kind in ("record", "error"):
        return all(_is_empty(field["type"], named, open_) for field in node["fields"])
    if kind == "fixed":
        return bool(node["size"] == 0)
    return _is_empty(kind, named, open_) if isinstance(kind, dict | list) else kind == "null"


def _name(node: Any) -> str | None:
    """Return the name of a named type or of a reference to one."""
    if isinstance(node, str):
        return None if node in PRIMITIVES else node
    if isinstance(node, dict) and node.get("type") in ("record", "error", "enum", "fixed"):
        return str(node["name"])
    return None


def _below(node: Any) -> list[Any]:
    if isinstance(node, list):
        return node
    if not isinstance(node, dict):
        return []
    kind = node.get("type")
    if kind in ("record", "error"):
        return [field["type"] for field in node["fields"]]
    if kind == "array":
        return [node["items"]]
    if kind == "map":
        return [node["values"]]
    return [kind] if isinstance(kind, dict | list) else []
