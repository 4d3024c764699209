"""The image's recipe is pinned, locked and small; `make image` builds and runs it."""

import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from deploy.image import health, kernels
from deploy.image.kernels import configurations
from kaboost.models.losses import DEFAULT_LOSS
from kaboost.service.config.settings import Settings, load
from tests.deploy.dockerfile import FILE, ROOT, command, environment, instructions, last

FOLDER = ROOT / "deploy" / "image"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SMALLEST = "task: {kind: binary}\nfeatures: {schema: {x: number}}\n"


def test_linter_has_nothing_to_say() -> None:
    """hadolint finds no fault of any weight."""
    linter = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([linter, "--failure-threshold", "style", FILE], capture_output=True)

    assert (0, b"") == (result.returncode, result.stdout)


def test_base_is_one_argument() -> None:
    """Both stages stand on one base: an argument whose default has its whole version."""
    words = [(each.word, each.rest) for each in instructions()]
    ((_, base),) = [each for each in words if each[0] == "ARG" and each[1].startswith("BASE=")]
    version = re.fullmatch(r"BASE=python:(3\.\d+)\.\d+-slim-bookworm", base)

    assert ["${BASE} AS build", "${BASE}"] == [rest for word, rest in words if word == "FROM"]
    assert version
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]


def test_everything_is_locked() -> None:
    """Whatever is installed is held by a hash, or comes from no index at all."""
    runs = [each.rest for each in instructions() if each.word == "RUN"]
    pip = [part for run in runs for part in run.split("&&") if " pip " in part]

    assert 4 == len(pip)
    assert [] == [
        each for each in pip if "--require-hashes" not in each and "--no-index" not in each
    ]


def test_build_arguments_stay_in_the_build() -> None:
    """The final stage takes no argument, so none can be read from the image."""
    everything = instructions()

    assert [] == [each for each in everything if each.word == "ARG" and each.stage == 2]


def test_user_is_a_number() -> None:
    """An orchestrator that asks for a plain user can tell that it is one."""
    assert "10001:10001" == last("USER")


def test_only_what_is_copied_is_sent() -> None:
    """`.dockerignore` lets in what the Dockerfile copies, and nothing else."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copies = [each.rest.split() for each in instructions() if each.word == "COPY"]
    copied = {source for words in copies if "--from=build" not in words for source in words[:-1]}

    assert "*" == rules[0]
    assert copied == {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert [] == [source for source in copied if not (ROOT / source).exists()]
    assert any(fnmatchcase("models/__pycache__", rule) for rule in rules[1:])


def test_ports_and_folders_are_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The image's variables are settings of ours; ports and folders are those they lead to."""
    file = tmp_path / "kaboost.yaml"
    file.write_text(SMALLEST)
    for name, value in environment().items():
        if name.startswith("KABOOST_"):
            monkeypatch.setenv(name, value)
    settings = load(file)
    folders = (settings.snapshots.directory, settings.checkpoints.directory)

    assert ("0.0.0.0", "0.0.0.0") == (settings.api.host, settings.metrics.host)
    assert f"{settings.api.port} {settings.metrics.port}" == last("EXPOSE")
    assert {last("VOLUME")} == {str(Path(last("WORKDIR"), folder).parent) for folder in folders}
    assert health.DEFAULT_PORT == settings.api.port
    assert "/opt/kaboost/image/health.py" == command("HEALTHCHECK")[-1]


def test_kernels_of_every_task_and_bank(tmp_path: Path) -> None:
    """What the image compiles covers each kind of task, each bank, and the default of each task."""
    found: list[Settings] = list(configurations(tmp_path))

    assert set(DEFAULT_LOSS) == {settings.task.kind for settings in found}
    assert len(found) == len({settings.snapshots.directory for settings in found})
    assert {"linear"} < {(settings.model or {})["bank"]["kind"] for settings in found}


def test_kernels_of_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bank that the default rule refuses is for other rules: the build goes on without it."""
    monkeypatch.setattr(kernels, "CHOICES", [{"kind": "linear", "n": 0}, {"kind": "linear"}])
    found = list(configurations(tmp_path))

    assert set(DEFAULT_LOSS) == {settings.task.kind for settings in found}
    assert len(DEFAULT_LOSS) == len(found)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_scripts_parse(path: Path) -> None:
    """A POSIX shell can read it."""
    subprocess.run(["sh", "-n", path], check=True)


def test_entrypoint_copies_the_kernels_once(tmp_path: Path) -> None:
    """The cache is a copy that can be written to; one that is there already is kept."""
    folder, cache = tmp_path / "opt", tmp_path / "cache"
    shutil.copytree(FOLDER, folder / "image")
    (folder / "kernels").mkdir()
    (folder / "kernels" / "one").write_text("of the image")
    entrypoint = folder / "image" / "entrypoint.sh"
    entrypoint.write_text(entrypoint.read_text().replace("/opt/kaboost", str(folder)))
    kaboost = tmp_path / "kaboost"
    kaboost.write_text('#!/bin/sh\necho "$NUMBA_CPU_NAME:$*"\n')
    kaboost.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NUMBA_CACHE_DIR": str(cache)}
    env["NUMBA_CPU_NAME"] = "generic"

    def start() -> str:
        done = subprocess.run(["sh", entrypoint, "serve", "a b"], env=env, capture_output=True)
        return done.stdout.decode()

    assert "generic:serve a b\n" == start()
    (cache / "one").write_text("compiled here")
    start()
    assert "compiled here" == (cache / "one").read_text()
    assert [cache / "one"] == list(cache.rglob("*"))
