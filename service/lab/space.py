"""The space that tuning draws from: settings with lists or ranges of values."""

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kaboost.service.errors import ConfigError

Candidate = dict[str, Any]  # setting to value
Space = Mapping[str, Any]
RANGE_KEYS = {"low", "high", "scale", "whole"}
MOST_LISTED = 10_000  # candidates of a space without ranges that are listed rather than drawn
DEFAULT_SPACE: Space = {
    "model.bank.kind": ["reboosted_trees"],
    "model.bank.effort": [0.5, 1, 2, 4],
    "model.bank.budget": {"low": 1500, "high": 12_000, "scale": "log", "whole": True},
    "model.bank.leaf_rates": [None, [0.35, 0.05, 0.2, 0.5], [1.4, 0.2, 0.8, 1.6]],
}


def read_space(path: Path) -> Space:
    """Read a space of a YAML file.

    Raises
    ------
    ConfigError
        If the file cannot be read, or a setting has neither a list nor a range.
    """
    try:
        space = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as err:
        raise ConfigError(f"--space {path}: cannot be read: {err}; name a YAML file") from err
    if not isinstance(space, dict) or not space:
        raise ConfigError(f"--space {path}: is no mapping; write model.bank.effort: [1, 2, 4]")
    for name, values in space.items():
        _check(str(name), values)
    return space


def _check(name: str, values: Any) -> None:
    remedy = "write a list, or {low: 1, high: 10, scale: log, whole: true}"
    if "." not in name and name != "model":
        raise ConfigError(f"space.{name}: is no setting; write SECTION.KEY, such as model.bank.n")
    if isinstance(values, list) and values:
        return
    if not isinstance(values, dict) or not {"low", "high"} <= values.keys() <= RANGE_KEYS:
        raise ConfigError(f"space.{name}: {values!r} is no choice; {remedy}")
    low, high, scale = values["low"], values["high"], values.get("scale", "linear")
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high))
    if (
        not numbers
        or not low < high
        or scale not in ("linear", "log")
        or (scale == "log" and low <= 0)
    ):
        raise ConfigError(f"space.{name}: {values!r} is no range; {remedy}, low < high")


def draw(space: Space, count: int, seed: int) -> list[Candidate]:
    """Return so many different candidates, fewer if the space has fewer.

    Examples
    --------
    >>> draw({"model.bank.effort": [1, 2]}, 5, 1)
    [{'model.bank.effort': 2}, {'model.bank.effort': 1}]
    """
    source = random.Random(seed)
    if all(isinstance(values, list) for values in space.values()):
        sizes = math.prod(len(values) for values in space.values())
        if sizes <= MOST_LISTED:
            listed = list(_all(space))
            source.shuffle(listed)
            return listed[:count]
    found: dict[str, Candidate] = {}
    for _ in range(100 * count):
        candidate = {name: _value(values, source) for name, values in space.items()}
        found.setdefault(key_of(candidate), candidate)
        if len(found) == count:
            break
    return list(found.values())


def _all(space: Space) -> Iterator[Candidate]:
    for values in itertools.product(*space.values()):
        yield dict(zip(space, values, strict=True))


def _value(values: Any, source: random.Random) -> Any:
    if isinstance(values, list):
        return source.choice(values)
    low, high = values["low"], values["high"]
    if values.get("scale") == "log":
        drawn = math.exp(source.uniform(math.log(low), math.log(high)))
    else:
        drawn = source.uniform(low, high)
    return round(drawn) if values.get("whole") else float(f"{drawn:.4g}")


def key_of(candidate: Mapping[str, Any]) -> str:
    """Return a text that two candidates share only if they are equal."""
    return json.dumps(candidate, sort_keys=True)


def flags_of(candidate: Mapping[str, Any]) -> dict[str, object]:
    """Return a candidate as flags of the command line."""
    return {name: json.dumps(value) for name, value in candidate.items()}


def describe(candidate: Mapping[str, Any], space: Space) -> str:
    """Name a candidate by what varies."""
    varying = [n for n, values in space.items() if not isinstance(values, list) or len(values) > 1]
    shown = [
        f"{n.rpartition('.')[2]}={json.dumps(candidate[n])}" for n in varying if n in candidate
    ]
    return ", ".join(shown) or "default"


def rungs(candidates: int, records: int, eta: int, least: int) -> Sequence[tuple[int, int]]:
    """Return how many candidates learn how many records: successive halving by `eta`.

    The last rung has all records.

    Jamieson, Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization,
    2016, Algorithm 1.

    Examples
    --------
    >>> rungs(9, 90_000, 3, 1000)
    [(9, 10000), (3, 30000), (1, 90000)]
    """
    found, k = [], 0
    while eta ** (k + 1) <= candidates:
        k += 1
    for step in range(k + 1):
        count = max(1, candidates // eta**step)
        limit = records // eta ** (k - step)
        if limit >= min(least, records):
            found.append((count, limit))
    first = (candidates, found[0][1])
    return [first, *found[1:]]
