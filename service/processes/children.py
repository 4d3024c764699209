"""Describe the child processes to the supervisor: commands, environment, shared descriptors."""

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import multiprocess

from kaboost.service.config.settings import Settings
from kaboost.service.http.newest_version import WorkerVersions, version_slots
from kaboost.service.processes.settings_pipe import send_settings
from kaboost.service.processes.status import RESTARTED_AFTER, write_status
from kaboost.service.processes.supervisor import FINAL_EXIT_CODES, Report, Role
from kaboost.service.storage.stores import snapshot_store

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the metrics library reads it when it is imported

log = logging.getLogger(__name__)


class RoleFactory:
    """Make the roles to supervise, and record what becomes of them."""

    def __init__(
        self, settings: Settings, learner: int, serving: int, versions: int, metrics: Path
    ) -> None:
        self._settings = settings
        self._learner = learner  # descriptors of the settings, those of the API with the admin key
        self._serving = serving
        self._versions = versions
        self._metrics = metrics

    def learner(self, cold_start: bool) -> Role:
        """Describe the learner."""
        cold = ["--cold-start"] if cold_start else []  # ignored after its first start

        def command(restarts: int) -> list[str]:
            return self._command("learner", self._learner, "--restarts", str(restarts), *cold)

        descriptors = (self._learner,)
        sign = snapshot_store(self._settings.snapshots).signs_of_life
        return Role("learner", command, child_environment(), descriptors, FINAL_EXIT_CODES, sign)

    def live(self, cold_start: bool, listener: socket.socket) -> Role:
        """Describe the one process that learns and serves a River model."""
        cold = ["--cold-start"] if cold_start else []
        common = [*self._shared(listener), "--slot", "0", *cold]

        def command(restarts: int) -> list[str]:
            return self._command("live", self._serving, "--restarts", str(restarts), *common)

        descriptors = (self._serving, listener.fileno(), self._versions)
        sign = self._heartbeats(0)
        return Role("learner", command, child_environment(), descriptors, FINAL_EXIT_CODES, sign)

    def workers(self, listener: socket.socket, learner_metrics: str | None = None) -> list[Role]:
        """Describe the API workers: all of them accept from one listener."""
        merged = [] if learner_metrics is None else ["--learner-metrics", learner_metrics]
        common = [*self._shared(listener), *merged]
        env = child_environment() | {METRICS_FOLDER: str(self._metrics)}
        descriptors = (self._serving, listener.fileno(), self._versions)

        def worker(number: int) -> Role:
            command = self._command("api", self._serving, "--slot", str(number), *common)
            sign = self._heartbeats(number)
            return Role(f"api-{number}", lambda _: command, env, descriptors, sign=sign)

        return list(map(worker, range(self._settings.api.workers)))

    def on_report(self, report: Report) -> None:
        """Log a change of state; the API also reports that of the learner."""
        log.log(
            logging.INFO if report.state == "running" else logging.ERROR,
            f"process {report.state}",
            extra={"role": report.role, "pid": report.pid, "reason": report.reason},
        )
        if report.role == "learner":
            self._write_status(report)
        elif report.exit_code is not None:
            multiprocess.mark_process_dead(report.pid, str(self._metrics))  # type: ignore[no-untyped-call]

    def _write_status(self, report: Report) -> None:
        store = snapshot_store(self._settings.snapshots)
        reason, status = report.reason, store.read_status()
        if report.exit_code is not None:  # it ended; its status explains more than its exit code
            if status and status.exit_code == report.exit_code:
                reason = f"{status.reason} ({report.reason})"
        elif status and status.state == "restarting":
            reason = RESTARTED_AFTER + status.reason
        write_status(store, report.state, report.exit_code, reason, report.pid)

    def _shared(self, listener: socket.socket) -> list[str]:
        return ["--socket", str(listener.fileno()), "--versions", str(self._versions)]

    def _heartbeats(self, slot: int) -> Callable[[], object]:
        """Return what reads the heartbeats of a process that serves."""
        worker = WorkerVersions(self._versions, slot)
        return lambda: worker.heartbeats

    def _command(self, role: str, settings: int, *arguments: str) -> list[str]:
        # -P: a folder named kaboost in the working directory is not the package.
        python = [sys.executable, "-P", "-m", "kaboost.service.processes.child"]
        return [*python, role, "--settings", str(settings), *arguments]


@contextmanager
def shared_resources(settings: Settings) -> Iterator[RoleFactory]:
    """Make what all children share: settings, versions, and the folder of their metrics."""
    with (
        send_settings(settings) as learner,
        send_settings(settings, serves_page=True) as serving,
        version_slots(settings.api.workers) as versions,
        tempfile.TemporaryDirectory(prefix="kaboost-metrics-") as folder,
    ):
        yield RoleFactory(settings, learner, serving, versions, Path(folder))


def child_environment() -> dict[str, str]:
    """Return this process's environment without the folder of metrics."""
    return {name: value for name, value in os.environ.items() if name != METRICS_FOLDER}
