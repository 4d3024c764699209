"""A YAML loader with the plain values of YAML 1.2 that refuses duplicate keys."""

import re
from typing import Any

import yaml

# In YAML 1.1, which PyYAML reads, `no` and `on` are booleans, 12:30 is 750 and 1e-3 is text.
_PLAIN = (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+|\.inf)|\.nan",
        list("-+.0123456789"),
    ),
)


class Loader(yaml.SafeLoader):
    """Load mappings, lists and plain values; refuse duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own name for the table)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build one mapping; PyYAML would silently drop the first of two equal keys."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} occurs twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in _PLAIN:
    Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first
    )
