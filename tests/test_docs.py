"""The docs are complete: settings, endpoints, commands and metrics have their headings in docs/."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from starlette.routing import Route

from kaboost import Model
from kaboost.models.evaluation.baselines import progressive_validation
from kaboost.service import cli
from kaboost.service.config.settings import Settings
from kaboost.service.metrics import api_metrics, learner_metrics
from kaboost.service.processes.api_server import create_api
from kaboost.service.score.metrics import score_metrics
from tests.specs import LINEAR

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "bench").glob("*.md"),
    *(ROOT / "data").glob("*.md"),
    *DOCS.rglob("*.md"),
]
GENERATED = {DOCS / "algorithms.md", DOCS / "settings.md"}  # their words are those of the code
WRITTEN = [page for page in PAGES if page not in GENERATED]
LINE = 140
# Private or dated words, each with a standard term in its place.
IDIOMS = (
    r"a dozen", r"anew", r"begun", r"beside the events", r"by and large", r"desks?", r"doors?",
    r"foretell", r"foretold", r"give or take", r"of equal ones", r"of late", r"oftener", r"rooms?",
    r"says? it", r"some \d[\d,]*", r"some (ten|twenty|fifty|sixty) (seconds|events|times)",
    r"taught", r"the like",
)  # fmt: skip


def headings(page: str) -> set[str]:
    """Read a page's headings as bare words: no backticks, no labels in braces."""
    found = re.findall(r"^#+ (.+)$", (DOCS / page).read_text(), re.M)
    return {re.sub(r"`|\{.*?\}", "", heading).strip() for heading in found}


def settings_of(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Name every setting as it is written in the file."""
    for name, field in section.model_fields.items():
        key = prefix + (field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_of(kind, f"{key}.")
        else:
            yield key


def metrics() -> Iterator[str]:
    """Name every metric of all processes as a scrape shows it."""
    registry = CollectorRegistry()
    api_metrics(registry)
    model = Model("binary", LINEAR, {"x": "number"})
    learner_metrics(registry).validation.record(
        progressive_validation(model.labels), model.booster.progress
    )
    of_score = CollectorRegistry()  # has names of the learner's
    score_metrics(of_score)
    for family in [*registry.collect(), *of_score.collect()]:
        yield family.name + ("_total" if family.type == "counter" else "")


def endpoints(settings: Settings) -> Iterator[str]:
    """Name every route with its method."""
    for route in create_api(settings).routes:
        assert isinstance(route, Route)
        if route.path.startswith("/web/"):
            continue  # a file of the page
        for method in (route.methods or set()) - {"HEAD"}:
            yield f"{method} {re.sub('{.*?}', '', route.path)}"


def commands(group: Any, path: str = "kaboost") -> Iterator[str]:
    """Name every command that `--help` shows."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}"


def test_every_setting_has_its_heading() -> None:
    """docs/settings.md documents each setting."""
    named = set(settings_of(Settings))

    assert len(named) > 20
    assert set() == named - headings("settings.md")


def test_every_metric_has_its_heading() -> None:
    """docs/metrics.md documents each metric."""
    named = set(metrics())

    assert len(named) > 20
    assert set() == named - headings("metrics.md")


def test_every_endpoint_has_its_heading() -> None:
    """docs/endpoints.md documents each route."""
    settings = Settings.model_validate(
        {"task": {"kind": "binary"}, "features": {"schema": {"x": "number"}}}
    )
    named = set(endpoints(settings))

    assert "POST /predict" in named
    assert set() == named - headings("endpoints.md")


def test_every_command_has_its_heading() -> None:
    """docs/commands.md documents each command."""
    named = set(commands(typer.main.get_command(cli.app)))

    assert "kaboost config show" in named
    assert set() == named - headings("commands.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the repository leads to it, and to its heading."""
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    ours = [link for link in links if not re.match(r"https?:", link)]
    broken = [link for link in ours if not leads(page, link)]

    assert [] == broken


def leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """Spell a page's headings as addresses."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path) -> None:
    """No line is over 140 characters, but the import lists, which have one line a folder."""
    lines = page.read_text().splitlines()
    long = [n for n, line in enumerate(lines, 1) if len(line) > LINE and " <- " not in line]

    assert [] == long


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_are_standard(page: Path) -> None:
    """No page uses a private word where the field has a term."""
    found = re.findall(rf"\b(?:{'|'.join(IDIOMS)})\b", page.read_text(), re.I)

    assert [] == found


def test_library_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The README's Python runs as it stands."""
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"^```python\n(.+?)^```", (ROOT / "README.md").read_text(), re.M | re.S)

    assert 1 == len(found)
    names: dict[str, Any] = {}
    exec(found[0], names)
    assert 1 == names["model"].booster.progress.events


def test_setup_installs_what_pages_run_from_its_environment() -> None:
    """`.venv/` is made by `make setup`, with all extras: pip there would replace the editable
    install by a copy.
    """
    readme = (ROOT / "README.md").read_text()
    lock = (ROOT / "requirements-dev.lock").read_text()
    extras = ("fastavro", "jsonschema", "protobuf", "pyarrow", "httpx2")

    assert [] == [page.name for page in PAGES if ".venv/bin/pip" in page.read_text()]
    assert [] == [name for name in extras if not re.search(rf"^{name}==", lock, re.M)]
    topic = readme[readme.index("## Run it on your topic") :]
    assert topic.index("`make setup`") < topic.index(".venv/bin/kaboost")


def test_index_names_every_page() -> None:
    """The index lists every page; decisions and experiments are listed by the site."""
    index = (DOCS / "index.md").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    pages = {page for page in pages if not page.startswith(("adr/", "experiments/"))}

    assert set() == {name for name in pages if f"({name})" not in index}


def test_decisions_have_their_form() -> None:
    """Decisions are numbered without gaps and have context, decision and consequences."""
    pages = sorted((DOCS / "adr").glob("*.md"))

    assert [f"{n:04d}" for n in range(1, len(pages) + 1)] == [page.name[:4] for page in pages]
    for page in pages:
        parts = re.findall(r"^## (.+)$", page.read_text(), re.M)
        assert ["Context", "Decision", "Consequences"] == parts, page.name
        assert page.read_text().startswith(f"# {page.name[:4]}. ")
