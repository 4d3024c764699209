"""The bill of materials of what the image has, as CycloneDX: `make sbom` writes it from the lock.

It is part of the wheel, `kaboost/data/sbom.cdx.json`, and so of the image. Licences are those that
the installed packages name; the lock has the hashes.
"""

import json
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

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


class Locked(NamedTuple):
    """A package of a lock file."""

    name: str
    version: str
    marker: str  # empty where it is installed on every platform


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


def component(package: Locked) -> dict[str, Any]:
    """Describe a package."""
    purl = f"pkg:pypi/{package.name}@{package.version}"
    made = {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version}
    licence = licence_of(package.name)
    named = [{"expression": licence}] if licence else []
    return made | {"purl": purl} | ({"licenses": named} if named else {})


def document() -> str:
    """Write the whole bill; the same lock gives the same bytes."""
    packages = sorted(read_lock(LOCK))
    service = {
        "type": "application",
        "bom-ref": "kaboost",
        "name": "kaboost",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": service},
        "components": [component(package) for package in packages],
    }
    return json.dumps(bill, indent=1) + "\n"


if __name__ == "__main__":
    SBOM.write_text(document())
