"""The lock files hold what pyproject.toml asks for, by hash, and name no place to get it from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, str]:
    """Read a lock file as package and version; each must carry a hash."""
    blocks = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
    assert all("--hash=sha256:" in block for block in blocks)
    return dict(re.match(r"(\S+)==(\S+)", block).groups() for block in blocks)


def wanted(requirements: list[str]) -> set[str]:
    """Name the packages of some requirements."""
    return {re.split(r"[<>=!~\[; ]", requirement, maxsplit=1)[0] for requirement in requirements}


@pytest.mark.parametrize(
    "name",
    [
        "requirements.lock",
        "requirements-object-store.lock",
        "requirements-dev.lock",
        "requirements-bench.lock",
    ],
)
def test_lock_names_no_host(name: str) -> None:
    """It installs from whatever registry pip is set up for."""
    assert not re.search(r"://|^-", (ROOT / name).read_text(), re.M)


def test_lock_has_every_dependency() -> None:
    """A dependency added to the project is locked before it is used."""
    running, developing = locked("requirements.lock"), locked("requirements-dev.lock")
    comparing = locked("requirements-bench.lock")

    assert wanted(PROJECT["project"]["dependencies"]) <= running.keys()
    assert wanted(PROJECT["dependency-groups"]["dev"]) <= developing.keys()
    assert running.items() <= developing.items()
    assert wanted(PROJECT["project"]["dependencies"]) <= comparing.keys()
    assert wanted(PROJECT["dependency-groups"]["bench"]) <= comparing.keys()
    assert {each for each in running.items() if each[0] in comparing} <= comparing.items()


def test_the_object_store_has_a_lock_file_of_its_own() -> None:
    """All that the image has, and the clients of object stores, which are large."""
    store = locked("requirements-object-store.lock")

    assert locked("requirements.lock").items() <= store.items()
    assert wanted(PROJECT["project"]["optional-dependencies"]["object-store"]) <= store.keys()


@pytest.mark.parametrize("extra", ["auth", "avro", "json-schema", "protobuf"])
def test_lock_has_the_extras_of_the_image(extra: str) -> None:
    """The image, which installs this lock file, reads every format and checks tokens."""
    packages = PROJECT["project"]["optional-dependencies"][extra]

    assert wanted(packages) <= locked("requirements.lock").keys()
