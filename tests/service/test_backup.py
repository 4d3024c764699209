"""The backup and the restore of docs/deploy.md, as they are written there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kaboost.service.config.settings import Settings
from tests.service.learning import events, expect_state, learned, learning, rows, saved, until

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy.md"


def blocks() -> list[str]:
    """Return the shell blocks of the section."""
    section = DEPLOY.read_text().split("\n## Backup and restore\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.S)


def run(block: str, folder: Path) -> str:
    """Run a block as a user would, but for the service, which the test starts itself."""
    lines = [line for line in block.splitlines() if not line.startswith("kaboost serve")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu", "-c", "\n".join(lines)],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_a_backup_of_a_running_learner_is_restored(
    topic: str,
    make_settings: Callable[..., Settings],
    send: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the loss of all checkpoints it goes on from there, with every event once."""
    monkeypatch.chdir(tmp_path)
    settings = make_settings(topic, checkpoints={"directory": "data/checkpoints"})
    (tmp_path / "kaboost.yaml").write_text((tmp_path / "kaboost.json").read_text())
    backup, restore = blocks()
    stream = rows(300)
    send(topic, events(stream[:200]))
    with learning(settings) as running:
        until(lambda: saved(settings) == {0: 200})
        verified = run(backup, tmp_path)
        send(topic, events(stream[200:]))
        until(lambda: learned(settings) == 300)
        assert 0 == running.stop()
    assert 1 == verified.count(" ok")
    shutil.rmtree(tmp_path / "data")
    run(restore, tmp_path)
    assert {0: 200} == saved(settings)
    with learning(settings) as running:
        until(lambda: saved(settings) == {0: 300})
        assert 0 == running.stop()

    expect_state(settings, stream)
