"""What is shipped: a bill of materials that is up to date, and only licences that allow it."""

import json
import re
from email.message import Message
from importlib import metadata

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.sbom import LOCK, ROOT, SBOM, document, licence_of, read_lock

# Permissive ones, and of the weak copyleft those whose files are shipped unchanged.
ALLOWED = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause"),
    *("CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"),
}


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-object-store.lock"])
def test_licences_are_allowed(lock: str) -> None:
    """Of each package that is installed with Kaboost; one that names none has to be looked at."""
    packages = list(read_lock(ROOT / lock))
    found = {each.name: licence_of(each.name) for each in packages}
    absent = {each.name for each in packages if found[each.name] is None and each.is_in_image}
    refused = {
        name: licence
        for name, licence in found.items()
        if licence is not None and not set(re.split(" AND | OR ", licence)) <= ALLOWED
    }

    assert len(packages) > 30
    assert set() == absent
    assert {} == refused


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    """`make sbom` writes it; it is valid CycloneDX, has every package, and is in the wheel."""
    text = SBOM.read_text()
    listed = {(each["name"], each["version"]) for each in json.loads(text)["components"]}

    assert document() == text, "run `make sbom`"
    assert None is JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    locked = {(each.name, each.version) for each in read_lock(LOCK) if each.is_in_image}
    assert locked == listed
    assert not {"colorama", "httpx2-jsfetch"} & {name for name, _ in listed}
    assert metadata.version("kaboost") == json.loads(text)["metadata"]["component"]["version"]
    assert "kaboost.data" in (ROOT / "pyproject.toml").read_text()


def test_another_version_here_does_not_change_the_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a package that is not installed: its licence is that of the bill."""
    made = Message()
    made["License-Expression"] = "SSPL-1.0"
    monkeypatch.setattr("deploy.sbom.metadata.metadata", lambda _name: made)
    monkeypatch.setattr("deploy.sbom.metadata.version", lambda _name: "0.0.1")

    assert document() == SBOM.read_text()


def test_an_unknown_licence_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that a new package brings along."""
    made = Message()
    made["License"] = "SSPL-1.0"
    monkeypatch.setattr("deploy.sbom.metadata.metadata", lambda _name: made)

    assert "SSPL-1.0" == licence_of("anything")
    assert "SSPL-1.0" not in ALLOWED
