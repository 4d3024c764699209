"""Compare configurations on the same events, with the confidence of their differences."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.types import Vec
from kaboost.service.errors import ConfigError
from kaboost.service.lab.bootstrap import (
    DRAWS,
    LEVEL,
    Difference,
    block_length,
    mean_difference,
)
from kaboost.service.lab.byte_streams import STDIN
from kaboost.service.lab.planning import ConfigOptions
from kaboost.service.lab.replay import Report, Request, replay
from kaboost.service.lab.result import Result

Meter = Callable[[str], Report]  # the progress of one configuration by its name


class Compared(NamedTuple):
    """One configuration and its result."""

    name: str
    result: Result

    @property
    def losses(self) -> Vec:
        """The loss of every event (B,)."""
        losses = self.result.each_loss
        assert losses is not None
        return losses


def compare(
    configs: Sequence[Path], request: Request, meter: Meter
) -> tuple[dict[str, Any], list[Compared]]:
    """Replay the same events with every configuration; return figures and results.

    Parameters
    ----------
    configs
        Two or more files; the others are compared with the first.
    request
        The input, and what flags say of all of them.
    meter
        Makes the progress of each.

    Raises
    ------
    ConfigError
        If there are too few configurations, they read other events, or one does not fit.
    """
    if len(configs) < 2:
        raise ConfigError("compare: name two configurations or more, such as a.yaml b.yaml")
    if request.source == STDIN:
        raise ConfigError("--on -: standard input is read once; save it to a file")
    found: list[Compared] = []
    for name, config in zip(_names(configs), configs, strict=True):
        options = ConfigOptions(config, request.options.overrides, request.options.given)
        one = request._replace(options=options, keep_losses=True)
        found.append(Compared(name, replay(one, meter(name))))
        if found[-1].result.figures["partial"]:
            break
    if len(found) < 2:
        raise ConfigError("interrupted before two configurations were replayed; run it again")
    return figures(found), found


def figures(found: Sequence[Compared]) -> dict[str, Any]:
    """Return the table of a comparison, with its curves.

    Raises
    ------
    ConfigError
        If the configurations have learned other numbers of events, or other tasks.
    """
    first = found[0]
    task, partial = first.result.figures["task"], any(c.result.figures["partial"] for c in found)
    for each in found[1:]:
        if each.result.figures["task"] != task:
            raise ConfigError(
                f"task.kind: {each.name} has {each.result.figures['task']}, {first.name} has "
                f"{task}; compare configurations of one task"
            )
        if len(each.losses) != len(first.losses) and not partial:
            raise ConfigError(
                f"{each.name} learned {len(each.losses):,} events, {first.name} "
                f"{len(first.losses):,}: differences are of the same events; see what "
                f"`kaboost replay --config` rejects or skips with each"
            )
    common = min(len(each.losses) for each in found)
    base = first.losses[:common]
    return {
        "input": first.result.figures["input"],
        "task": task,
        "partial": partial,
        "events": common,
        "loss_unit": first.result.figures["loss_unit"],
        "block_events": block_length(common),
        "draws": DRAWS,
        "level": LEVEL,
        "rows": [_row(each, base, is_first=each is first) for each in found],
        "curves": {each.name: _curve(each, first) for each in found},
        "ends": first.result.figures["curve"]["events"],
    }


def _row(each: Compared, base: Vec, *, is_first: bool) -> dict[str, Any]:
    """Return one line of the table; a negative difference is better than the first one."""
    shown = each.result.figures
    losses = each.losses[: len(base)]
    row = {
        "configuration": each.name,
        "loss": float(losses.mean()),
        "error": shown["errors"]["model"],
        "events/s": shown["events_per_second"],
    }
    if is_first:
        return {**row, **dict.fromkeys(Difference._fields), "verdict": "first"}
    difference = mean_difference(losses - base)
    verdict = "no clear difference"
    if difference.is_clear:
        verdict = "better" if difference.difference < 0.0 else "worse"
    if not (losses - base).any():
        verdict = "the same"
    return {**row, **difference.figures, "verdict": verdict}


def _curve(each: Compared, first: Compared) -> list[float | None]:
    """Return the difference of the losses so far from those of the first configuration."""
    ours = each.result.figures["running"]["loss model"]
    theirs = first.result.figures["running"]["loss model"]
    pairs = zip(ours, theirs, strict=False)
    return [None if a is None or b is None else a - b for a, b in pairs]


def _names(configs: Sequence[Path]) -> list[str]:
    """Name the configurations by their files; with folders where two would be the same."""
    short = [config.stem for config in configs]
    if len(set(short)) == len(short):
        return short
    long = [str(config) for config in configs]
    return [f"{name} ({k})" if long.count(name) > 1 else name for k, name in enumerate(long, 1)]
