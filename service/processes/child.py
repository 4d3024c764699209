"""A supervised process: it reads its settings from its parent, and ends with it."""

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
from kaboost.service.processes.children import METRICS_FOLDER
from kaboost.service.processes.roles import run_learner, run_live, run_worker
from kaboost.service.processes.settings_pipe import receive_settings
from kaboost.service.processes.supervisor import DRAIN_SECONDS

STDIN = 0

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one role until SIGTERM, or until the parent ends."""
    args = parser().parse_args(argv)
    settings = receive_settings(args.settings)
    logs.setup(settings.log, private=bool(settings.privacy.fields))
    temp_dir = os.environ.get(METRICS_FOLDER, "") if args.role == "api" else ""
    threading.Thread(target=end_with_parent, args=(temp_dir,), name="lifeline", daemon=True).start()
    try:
        if args.role == "learner":
            return run_learner(settings, cold_start=args.cold_start, restarts=args.restarts)
        listener = socket.socket(fileno=args.socket)
        versions = WorkerVersions(args.versions, args.slot)
        if args.role == "live":
            return run_live(settings, listener, versions, args.cold_start, args.restarts)
        return run_worker(settings, listener, versions, args.learner_metrics)
    except KaboostError as err:
        log.error("stopped", extra={"exit_code": int(err.exit_code), "reason": str(err)})
        return err.exit_code
    except Exception:  # boundary: the supervisor restarts the process
        log.exception("crashed", extra={"role": args.role})
        return Exit.NOT_HELD


def parser() -> argparse.ArgumentParser:
    """Declare the arguments, which only the supervisor passes."""
    arguments = argparse.ArgumentParser(prog="kaboost child")
    arguments.add_argument("role", choices=["learner", "live", "api"])
    arguments.add_argument(
        "--settings", type=int, required=True, help="descriptor to read them from"
    )
    arguments.add_argument("--socket", type=int, help="descriptor of the listening socket")
    arguments.add_argument("--versions", type=int, help="descriptor of the versions of all workers")
    arguments.add_argument("--slot", type=int, help="slot of this worker among them")
    arguments.add_argument("--learner-metrics", help="URL of the learner's metrics")
    arguments.add_argument("--restarts", type=int, default=0)
    arguments.add_argument("--cold-start", action="store_true")
    return arguments


def end_with_parent(temp_dir: str = "") -> None:
    """Drain when the parent ends, whatever the reason: then standard input is closed.

    `temp_dir` is a folder that the parent would have removed; its open files stay usable.
    """
    while os.read(STDIN, 1):
        pass
    log.warning("parent ended, draining")
    if temp_dir:
        shutil.rmtree(temp_dir, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(DRAIN_SECONDS)
    os._exit(Exit.NOT_HELD)


if __name__ == "__main__":
    sys.exit(main())
