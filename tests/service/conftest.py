"""API processes for the HTTP tests."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from tests.service.serving import Program, publish, running, settings, taught


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """An API process over one binary snapshot, with narrow limits."""
    limits = {"max_body_bytes": 200_000, "max_rows": 100, "timeout_seconds": 1.0}
    limits |= {"stale_after_seconds": 3_600}
    wanted = settings(tmp_path_factory.mktemp("api"), api=limits)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.ready()
        yield program


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Settings, Program]]]:
    """Start API processes of one's own: `serve(task={...}, ...)`, before any snapshot."""
    started: list[Program] = []

    def start(**sections: Any) -> tuple[Settings, Program]:
        wanted = settings(tmp_path, **sections)
        started.append(Program("api", wanted))
        return wanted, started[-1]

    yield start
    for program in started:
        program.close()
