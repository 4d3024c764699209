"""One trial of tuning in a process of its own: JSON on standard input, JSON on standard output."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from kaboost.service.errors import KaboostError
from kaboost.service.lab.planning import ConfigOptions
from kaboost.service.lab.replay import Request, replay


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Replay with one candidate; return its loss, or why it has none."""
    options = ConfigOptions(Path(job["config"]), job["flags"])
    request = Request(
        job["source"], options, limit=job["limit"], delimiter=job["delimiter"], keep_losses=True
    )
    try:
        result = replay(request)
    except KaboostError as err:
        return {"fault": str(err)}
    if job["losses"] and result.each_loss is not None:
        np.save(job["losses"], result.each_loss)
    shown = result.figures
    return {
        "loss": shown["losses"]["model"],
        "error": shown["errors"]["model"],
        "events": shown["events"],
        "records": shown["records"],
        "seconds": shown["seconds"],
        "events_per_second": shown["events_per_second"],
    }


def main() -> None:
    """Run the job of standard input."""
    print(json.dumps(run(json.load(sys.stdin))))
