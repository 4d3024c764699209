"""Files and results for the tests of the laboratory."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kaboost.service.lab.planning import ConfigOptions
from kaboost.service.lab.replay import Request, replay
from kaboost.service.lab.result import Result
from kaboost.service.onboarding.plan import Given

LINEAR = "{rule: sgb, bank: {kind: linear, n: 4, step: sgd, lr: 0.1}}"
FAST: dict[str, object] = {"model": LINEAR}  # compiles in moments, or runs as plain Python


def rows(count: int, seed: int = 5) -> list[dict[str, Any]]:
    """Draw events whose label depends on a number and a country."""
    source = random.Random(seed)
    found = []
    for k in range(count):
        amount, country = round(source.gauss(0, 1), 3), source.choice(["PT", "DE", "FR"])
        score = 2.0 * amount + 1.5 * (country == "DE") - 0.5
        fraud = int(source.random() < 1.0 / (1.0 + math.exp(-score)))
        vip = source.random() < 0.5
        found.append(
            {"order": f"o{k}", "amount": amount, "country": country, "vip": vip, "fraud": fraud}
        )
    return found


def write_csv(path: Path, found: Sequence[dict[str, Any]], delimiter: str = ",") -> Path:
    """Write rows as text."""
    lines = [delimiter.join(found[0])]
    lines += [
        delimiter.join(json.dumps(v) if isinstance(v, bool) else str(v) for v in row.values())
        for row in found
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(source: Path | str, label: str | None = "fraud", **options: Any) -> Result:
    """Replay with a small model, unless `overrides` say otherwise."""
    overrides = options.pop("overrides", FAST)
    given = Given(label, task=options.pop("task", None), timestamp=options.pop("timestamp", None))
    config_options = ConfigOptions(options.pop("config", None), overrides, given)
    return replay(Request(str(source), config_options, **options))
