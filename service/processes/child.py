"""A process under the supervisor: takes its settings from its parent, and ends with it."""

import argparse
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence

from kaboost.service import logs
from kaboost.service.errors import Exit, KaboostError
from kaboost.service.http.newest_version import WorkerVersions
from kaboost.service.processes.roles import METRICS_FOLDER, run_learner, run_live, run_worker
from kaboost.service.processes.settings_pipe import receive_settings
from kaboost.service.processes.supervisor import DRAIN_SECONDS

STDIN = 0

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one role until told to stop, or until the parent is gone."""
    asked = parser().parse_args(argv)
    settings = receive_settings(asked.settings)
    logs.setup(settings.log)
    litter = os.environ.get(METRICS_FOLDER, "") if asked.role == "api" else ""
    threading.Thread(target=end_with_parent, args=(litter,), name="lifeline", daemon=True).start()
    try:
        if asked.role == "learner":
            return run_learner(settings, cold_start=asked.cold_start, restarts=asked.restarts)
        door = socket.socket(fileno=asked.socket)
        if asked.role == "live":
            return run_live(settings, door, asked.cold_start, asked.restarts)
        versions = WorkerVersions(asked.versions, asked.slot)
        return run_worker(settings, door, versions, asked.learner_metrics)
    except KaboostError as err:
        log.error("stopped", extra={"exit_code": int(err.exit_code), "reason": str(err)})
        return err.exit_code
    except Exception:  # the door of the process: the supervisor starts it again
        log.exception("crashed", extra={"role": asked.role})
        return Exit.NOT_HELD


def parser() -> argparse.ArgumentParser:
    """Describe the arguments; only the supervisor writes them."""
    made = argparse.ArgumentParser(prog="kaboost child")
    made.add_argument("role", choices=["learner", "live", "api"])
    made.add_argument("--settings", type=int, required=True, help="descriptor to read them from")
    made.add_argument("--socket", type=int, help="descriptor of the listening socket")
    made.add_argument("--versions", type=int, help="descriptor of the versions of all workers")
    made.add_argument("--slot", type=int, help="which of them is this worker's own")
    made.add_argument("--learner-metrics", help="address of the learner's own port")
    made.add_argument("--restarts", type=int, default=0)
    made.add_argument("--cold-start", action="store_true")
    return made


def end_with_parent(litter: str = "") -> None:
    """Drain as soon as standard input, the lifeline, is closed: however the parent went.

    `litter` is a folder that the parent would have removed; open files of it stay usable.
    """
    while os.read(STDIN, 1):
        pass
    log.warning("parent gone, draining")
    if litter:
        shutil.rmtree(litter, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(DRAIN_SECONDS)
    os._exit(Exit.NOT_HELD)


if __name__ == "__main__":
    sys.exit(main())
