"""The page of every setting, made from the settings class: docs/settings.md is what this prints."""

from collections.abc import Iterator, Mapping
from typing import Any

from kaboost.service.config.settings import Settings
from kaboost.service.config.sources import Leaf, env_name

INTRO = """\
# Settings

Made by `kaboost config docs` from the settings class; a test holds this page against it.

A value comes from the first of these that has it: a flag (`--set kafka.topic=payments`, as often
as needed), the environment, the secrets directory, the configuration file, the default. Mappings
are merged key by key: the file's order stays, new keys go last. `kaboost config show` prints every
effective value and where it came from.

- **File.** `--config FILE`, or `KABOOST_CONFIG`, or `kaboost.yaml` in the working directory if it
  is there. Plain values are read as YAML 1.2 does: `no` and `on` are words, `1e-3` is a number; a
  key that stands twice is refused. Relative folders start at the working directory.
- **Environment.** `KABOOST_SECTION__KEY`. Lists and mappings are JSON:
  `KABOOST_TASK__LABELS='["ham", "spam"]'`, `KABOOST_FEATURES__SCHEMA='{"age": "number"}'`. Below
  `kafka.extra`, `_` stands for the dot: `KABOOST_KAFKA__EXTRA__SASL_PASSWORD` is `sasl.password`.
  A `KABOOST_` name that sets nothing is refused, but for those that Kubernetes and Docker make
  for a service called kaboost.
- **Secrets directory.** `KABOOST_SECRETS_DIR` names a folder with one file for each value, called
  like the environment name without `KABOOST_`: `kafka__extra__sasl_password`. See
  [security](security.md).
"""


def page() -> str:
    """Write the whole page."""
    schema = Settings.model_json_schema()
    parts = [INTRO]
    for name, field in schema["properties"].items():
        section = _resolve(schema, field)
        if "properties" not in section:
            parts.append(_entry((name,), section, name in schema["required"]))
            continue
        parts.append(f"## {name}\n\n{section['description']}\n")
        parts += _entries(schema, section, name)
    return "\n".join(parts)


def _entries(schema: Mapping[str, Any], section: Mapping[str, Any], name: str) -> Iterator[str]:
    for key, field in section["properties"].items():
        required = key in section.get("required", ())
        yield _entry((name, key), _resolve(schema, field), required)


def _entry(path: Leaf, field: Mapping[str, Any], required: bool) -> str:
    default = "required" if required else f"default {_shown(field.get('default'))}"
    bounds = f", {text}" if (text := _bounds(field)) else ""
    return (
        f"{'##' if len(path) == 1 else '###'} {'.'.join(path)}\n\n"
        f"{field['description']}\n\n"
        f"{_type(field)}{bounds} · {default} · `{env_name(path)}`\n"
    )


def _resolve(schema: Mapping[str, Any], field: Mapping[str, Any]) -> dict[str, Any]:
    """Put what a field refers to below what it says itself."""
    name = field.get("$ref", "").rpartition("/")[2]
    return {**schema["$defs"][name], **field} if name else dict(field)


def _shown(value: Any) -> str:
    return (
        "none"
        if value is None or value == {}
        else f"`{str(value).lower() if isinstance(value, bool) else value}`"
    )


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"])
    if "anyOf" in field:
        parts = [_type(part) for part in field["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(parts))
    below = field.get("additionalProperties")
    if isinstance(below, dict):
        return f"mapping to {_type(below)}"
    return (
        f"list of {_type(field['items'])}"
        if "items" in field
        else WORDS[field.get("format", field["type"])]
    )


WORDS = {
    "object": "mapping",
    "string": "text",
    "path": "folder",
    "password": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
    "minProperties": "entries at least",
    "pattern": "matching",
}


def _bounds(field: Mapping[str, Any]) -> str:
    found = [field, *field.get("anyOf", ())]
    return ", ".join(
        f"{words} `{part[key]}`" for part in found for key, words in BOUNDS.items() if key in part
    )
