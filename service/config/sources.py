"""Read the sources of the configuration (file, secrets, environment, flags) and merge them."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NestedSecretsSettingsSource,
    SecretsSettingsSource,
)
from pydantic_settings.exceptions import SettingsError

from kaboost.service.config.yaml12 import Loader
from kaboost.service.errors import ConfigError

PREFIX = "KABOOST_"
SECRETS_DIR = "KABOOST_SECRETS_DIR"
EXTRA = ("kafka", "extra")
UNTYPED = ("model", "candidates")  # sections without declared types: values are parsed as YAML
KEYS_WITH_UNDERSCORE = ("log_level",)  # of librdkafka; its others can only be set from C
# Variables that are no settings, and those of Kubernetes and Docker for a service named kaboost.
_OTHER = re.compile(r"KABOOST_(CONFIG|SECRETS_DIR|KEY|TEST_\w+)=")
_LINKS = re.compile(
    r"_SERVICE_(HOST|PORT\w*)=|_PORT_\d+_(TCP|UDP|SCTP)\w*=|_PORT=(tcp|udp|sctp)://"
)

Leaf = tuple[str, ...]


class Source(NamedTuple):
    """The values of one source; `origin` describes where a leaf was set."""

    leaves: dict[Leaf, Any]
    origin: Callable[[Leaf], str]


class Merged(NamedTuple):
    """The merged values of all sources, and the origin of every leaf."""

    leaves: dict[Leaf, Any]
    origins: dict[Leaf, str]

    def tree(self) -> dict[str, Any]:
        """Nest the leaves as in the file."""
        root: dict[str, Any] = {}
        for path, value in self.leaves.items():
            node = root
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = value
        return root


def read(settings: type[BaseSettings], path: Path | None, flags: Mapping[str, object]) -> Merged:
    """Merge the sources, the weakest first: file, secrets directory, environment, flags."""
    sources = [] if path is None else [_file(path)]
    secrets = os.environ.get(SECRETS_DIR)
    if secrets:
        sources.append(_secrets(settings, Path(secrets)))
    sources += [_environment(settings), _flags(flags)]
    return merge(sources)


def merge(sources: list[Source]) -> Merged:
    """Let every leaf of a later source replace that of the earlier ones.

    A leaf keeps the position of the first source that has it: the order of features matters.
    """
    merged = Merged({}, {})
    for source in sources:
        for path, value in source.leaves.items():
            if path not in merged.leaves:
                _remove_overlapping(merged, path)
            merged.leaves[path] = value
            merged.origins[path] = source.origin(path)
    return merged


def _remove_overlapping(merged: Merged, path: Leaf) -> None:
    """Remove leaves above or below a path that is now set."""
    for other in list(merged.leaves):
        if other[: len(path)] == path or path[: len(other)] == other:
            value, origin = merged.leaves.pop(other), merged.origins.pop(other)
            if len(other) < len(path) and other[0] in UNTYPED and isinstance(value, str):
                # `bank: nets` means {kind: nets}: setting bank.n over it keeps the kind.
                merged.leaves[(*other, "kind")] = value
                merged.origins[(*other, "kind")] = origin


def flatten(tree: Mapping[Any, Any], above: Leaf = ()) -> Iterator[tuple[Leaf, Any]]:
    """Walk a nested mapping leaf by leaf; an empty mapping is a leaf."""
    for key, value in tree.items():
        if not isinstance(key, str):
            place = ".".join(above) or "the configuration"
            raise ConfigError(f"{place}: the key {key!r} is not text, put it in quotes")
        path = (*above, key)
        if isinstance(value, Mapping) and value:
            yield from flatten(value, path)
        else:
            yield path, value


def env_name(path: Leaf) -> str:
    """Return the name of the environment variable of a setting."""
    return PREFIX + re.sub(r"[.-]", "_", "__".join(path)).upper()


def scalar(text: str) -> Any:
    """Parse one value as YAML."""
    return yaml.load(text, Loader)


def _file(path: Path) -> Source:
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as err:
        raise ConfigError(
            f"configuration file {path} cannot be read ({err.strerror}): name another with --config"
        ) from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"configuration file {path} is not UTF-8: save it as UTF-8") from err
    except yaml.YAMLError as err:
        raise ConfigError(f"configuration file {path} is not YAML: {_where(err)}") from err
    if not isinstance(tree, dict | None):
        raise ConfigError(
            f"configuration file {path}: write sections (kafka:, task:), not {tree!r}"
        )
    return Source(_dotted_extra(flatten(tree or {})), lambda _: f"file {path}")


def _where(err: yaml.YAMLError) -> str:
    """Describe the problem and its line number, but not the line: it may hold a secret."""
    mark, problem = getattr(err, "problem_mark", None), getattr(err, "problem", None)
    return f"{problem or 'unreadable'}" + (f" in line {mark.line + 1}" if mark else "")


def _environment(settings: type[BaseSettings]) -> Source:
    _refuse_unknown(settings)
    leaves = _from_strings(EnvSettingsSource(settings), "environment variable", str.upper)

    def origin(path: Leaf) -> str:
        above = [env_name(path[:n]) for n in range(len(path), 0, -1)]
        upper = {name.upper(): name for name in os.environ}
        return f"env {next((upper[name] for name in above if name in upper), above[0])}"

    return Source(leaves, origin)


def _secrets(settings: type[BaseSettings], directory: Path) -> Source:
    try:
        source = NestedSecretsSettingsSource(
            SecretsSettingsSource(settings),
            directory,
            "error",
            secrets_prefix="",
            secrets_nested_delimiter="__",
        )
    except (SettingsError, OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{SECRETS_DIR} = {directory}: {err}; name a directory of files") from err
    return Source(_from_strings(source, "secrets file", str), lambda _: f"secret in {directory}")


def _flags(flags: Mapping[str, object]) -> Source:
    leaves: dict[Leaf, Any] = {}
    for name, value in flags.items():
        path = tuple(name.split("."))
        plain = isinstance(value, str) and (path[0] in UNTYPED or value[:1] in ("[", "{"))
        value = scalar(str(value)) if plain else value
        leaves |= flatten(value, path) if isinstance(value, Mapping) else {path: value}
    return Source(_dotted_extra(leaves.items()), lambda _: "flag")


def _from_strings(
    source: EnvSettingsSource, what: str, casing: Callable[[str], str]
) -> dict[Leaf, Any]:
    try:
        leaves = _dotted_extra(flatten(source()))
    except SettingsError as err:
        raise ConfigError(
            f"{what} {casing(_unreadable(source, err))} is not JSON: write a list as "
            '["a", "b"], a mapping as {"a": "b"}, with the quotes'
        ) from err
    return {
        path: scalar(value) if path[0] in UNTYPED and isinstance(value, str) else value
        for path, value in leaves.items()
    }


def _unreadable(source: EnvSettingsSource, err: SettingsError) -> str:
    """Find the variable with that value: pydantic's error names only its class and the section."""
    text = getattr(err.__cause__, "doc", None)
    return next((name for name, value in source.env_vars.items() if value == text), str(err))


def _dotted_extra(leaves: Iterable[tuple[Leaf, Any]]) -> dict[Leaf, Any]:
    """Write librdkafka's keys with dots, which environment variables cannot contain."""
    return {
        (*EXTRA, _librdkafka_key(path[2:])) if path[:2] == EXTRA and path[2:] else path: value
        for path, value in leaves
    }


def _librdkafka_key(path: Leaf) -> str:
    key = ".".join(path)
    return key if key in KEYS_WITH_UNDERSCORE else key.replace("_", ".")


def _nearest(name: str, known: Sequence[str]) -> str:
    """Return the name that is most like a wrong one, of several the first; none if none is."""

    def likeness(other: str) -> float:
        return SequenceMatcher(None, other, name).ratio()

    best = max(known, key=likeness)
    return best if likeness(best) >= 0.5 else ""


def _refuse_unknown(settings: type[BaseSettings]) -> None:
    """Refuse unknown names; below a known section the settings class does."""
    known = [env_name((name,)) for name in settings.model_fields]
    for name, value in os.environ.items():
        entry = f"{name.upper()}={value}"
        head = name.upper().split("__")[0]
        if (
            not entry.startswith(PREFIX)
            or head in known
            or _OTHER.match(entry)
            or _LINKS.search(entry)
        ):
            continue
        near = _nearest(entry[len(PREFIX) : len(name)], _names(settings))
        hint = f"did you mean {PREFIX}{near}?" if near else "see docs/settings.md, or unset it"
        raise ConfigError(f"environment variable {name} is not a setting: {hint}")


def _names(settings: type[BaseSettings]) -> list[str]:
    """List the environment names of all settings, without the prefix."""
    names = []
    for section, field in settings.model_fields.items():
        inner = getattr(field.annotation, "model_fields", {})
        below: list[Leaf] = [(section, part.alias or key) for key, part in inner.items()]
        names += [env_name(path)[len(PREFIX) :] for path in below or [(section,)]]
    return names
