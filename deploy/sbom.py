"""The bill of materials of what the image has, as CycloneDX: `make sbom` writes it from the lock.

It is part of the wheel, `kaboost/data/sbom.cdx.json`, and so of the image. Licences are those that
the installed packages name; the lock has the hashes.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SBOM = ROOT / "data" / "sbom.cdx.json"
# Words of classifiers and free texts, as SPDX has them.
SPDX = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}


IMAGE = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
}


class Locked(NamedTuple):
    """A package of a lock file."""

    name: str
    version: str
    marker: str  # empty where it is installed on every platform

    @property
    def is_in_image(self) -> bool:
        """Whether it is installed on Linux."""
        return not self.marker or Marker(self.marker).evaluate(IMAGE)


def read_lock(path: Path) -> Iterator[Locked]:
    """Yield the packages of a lock file."""
    for line in path.read_text().splitlines():
        if found := re.match(r"([\w.-]+)==(\S+)(?: ; (.*?))?(?: \\)?$", line):
            yield Locked(found[1], found[2], found[3] or "")


def licence_of(name: str) -> str | None:
    """Return the SPDX expression of an installed package; None if it is not installed here."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if expression := found.get("License-Expression"):
        return str(expression)
    listed = found.get_all("Classifier") or []
    words = [each.rpartition(" :: ")[2] for each in listed if each.startswith("License :: ")]
    if not words:
        words = [(found.get("License") or "").split("\n")[0]]
    return " OR ".join(sorted({SPDX.get(word.lower(), word) for word in words}))


def written_licences() -> dict[str, str]:
    """Read the licences of the bill that is there, by name and version."""
    listed = json.loads(SBOM.read_text())["components"]
    return {
        each["purl"]: each["licenses"][0]["expression"] for each in listed if "licenses" in each
    }


def installed_version(name: str) -> str | None:
    """Return the version of a package that is installed here."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def component(package: Locked, known: Mapping[str, str]) -> dict[str, Any]:
    """Describe a package; `known` has licences of those that are not installed here so."""
    purl = f"pkg:pypi/{package.name}@{package.version}"
    made = {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version}
    is_here = installed_version(package.name) == package.version
    licence = licence_of(package.name) if is_here else known.get(purl)
    named = [{"expression": licence}] if licence else []
    return made | {"purl": purl} | ({"licenses": named} if named else {})


def document() -> str:
    """Write the whole bill; the same lock gives the same bytes."""
    packages = sorted(each for each in read_lock(LOCK) if each.is_in_image)
    known = written_licences() if SBOM.exists() else {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    service = {
        "type": "application",
        "bom-ref": "kaboost",
        "name": "kaboost",
        "version": project["version"],
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": service},
        "components": [component(package, known) for package in packages],
    }
    return json.dumps(bill, indent=1) + "\n"


if __name__ == "__main__":
    SBOM.write_text(document())
