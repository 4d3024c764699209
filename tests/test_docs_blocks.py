"""Every block of code in the docs holds: configurations are checked, commands and Python too."""

import ast
import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
import typer
import yaml
from typer.exceptions import TyperException

from kaboost.service import cli
from kaboost.service.config.settings import Settings, load
from kaboost.service.config.yaml12 import Loader
from kaboost.service.lab.space import read_space
from tests.service.keyfiles import write_keys
from tests.service.test_tls import section
from tests.service.test_tls import write as write_certificate
from tests.service.test_tokens import KEYS, jwks
from tests.test_docs import DOCS, PAGES, ROOT

SECTIONS = set(Settings.model_fields)
# Run by tests of their own: test_docs, test_scikit_default, e2e/test_tutorial.
RUN_ELSEWHERE = {"README.md", "docs/library.md", "docs/tutorial.md"}
LEFT_OUT = {"MissingParameter", "NoArgsIsHelpError"}  # of a command that a sentence only names
KNOWN = {"", "json", "mermaid", "python", "sh", "text", "yaml"}


class Block(NamedTuple):
    """A block of code: where it stands, its language (none if it is indented), its lines."""

    at: str
    page: Path
    language: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Read a page's blocks, fenced and indented ones."""
    fence, lines, first, language = False, [], 0, ""
    for n, line in enumerate([*page.read_text().splitlines(), ""], 1):
        if re.match(r"\s*```", line):
            if fence:
                yield block(page, first, language, lines)
            fence, lines, first, language = not fence, [], n, line.strip().strip("`")
        elif fence or line.startswith("    ") or (lines and not line):
            first = first if fence or lines else n
            lines.append(line)
        elif lines:
            yield block(page, first, "", lines)
            lines = []


def block(page: Path, first: int, language: str, lines: list[str]) -> Block:
    """Make a block of lines, without their common margin."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    text = "\n".join(line[margin:] for line in lines) + "\n"
    return Block(f"{page.relative_to(ROOT)}:{first}", page, language, text)


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(holds: Callable[[Block], bool]) -> Any:
    """Parametrise a test by the blocks for which a condition holds."""
    return pytest.mark.parametrize("block", list(filter(holds, BLOCKS)), ids=lambda block: block.at)


def is_configuration(block: Block) -> bool:
    """Whether it is YAML of kaboost.yaml: fenced, or indented and beginning with a section."""
    first = re.match(r"(#.*\n)*(\w+):", block.text)
    return block.language == "yaml" or (
        block.language == "" and first is not None and first[2] in SECTIONS and "\n " in block.text
    )


def commands(block: Block) -> list[str]:
    """Return the lines of a block that call kaboost, continuation lines joined."""
    lines = re.sub(r"\\\n\s*", "", block.text).splitlines()
    pattern = r"(?:\$ )?(?:[A-Z_]+=\S* )*(?:\.venv/bin/)?(kaboost [a-z-].*)"
    return [found[1] for line in lines if (found := re.match(pattern, line))]


def test_blocks_are_found() -> None:
    """Each kind of block is read from the pages, and no language is unknown."""
    assert {block.language for block in BLOCKS} <= KNOWN
    assert len([block for block in BLOCKS if is_configuration(block)]) > 14
    assert len([line for block in BLOCKS for line in commands(block)]) > 30


@of(is_configuration)
def test_configurations_hold(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kaboost config check` accepts it; sections that it does not show are minimal ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__SASL_PASSWORD", "from outside the file")
    for text in block.text.split("\n---\n"):
        shown = yaml.load(text, Loader)
        if "model.bank.effort" in shown:
            (tmp_path / "space.yaml").write_text(block.text)
            assert len(read_space(tmp_path / "space.yaml")) == len(shown)
            continue
        write_files(shown.get("api", {}), tmp_path)
        (tmp_path / "kaboost.yaml").write_text(json.dumps(completed(shown)))
        cli.config_check(tmp_path / "kaboost.yaml")


def completed(shown: dict[str, Any]) -> dict[str, Any]:
    """Return what a block shows with the least that else belongs to it."""
    least: dict[str, dict[str, Any]] = {
        "kafka": {"topic": "payments.v1"},
        "task": {"kind": "binary"},
    }
    if "river" in shown.get("model", {}) or "candidates" in shown:  # kinds are not inferred
        texts = {"note": "text"} if "note" in str(shown) else {}
        least["features"] = {"schema": {"amount": "number", **texts}}
    whole = {**shown, **{key: {**values, **shown.get(key, {})} for key, values in least.items()}}
    for key in list(whole["kafka"].get("extra", {})):
        if key.endswith(".location"):  # a file that is not on this machine
            del whole["kafka"]["extra"][key]
    return whole


def write_files(api: dict[str, Any], folder: Path) -> None:
    """Write keys and certificates, and name these instead of files that are not on this machine."""
    auth, files = api.get("auth", {}), api.get("tls", {})
    if "keys" in auth:
        auth["keys"] = str(folder / "keys")
        write_keys(folder / "keys", ("shop", "predict"))
    if "jwt" in auth:
        auth["jwt"]["jwks"] = str(folder / "jwks.json")
        (folder / "jwks.json").write_text(jwks(**KEYS))
    if files:
        ca = trustme.CA()
        write_certificate(folder, ca.issue_cert("kaboost.test"), ca)
        api["tls"] = section(folder, clients="client_ca" in files)


@of(lambda block: bool(commands(block)))
def test_commands_are_understood(block: Block) -> None:
    """Every command has a name and options that `kaboost` knows."""
    for line in commands(block):
        words = shlex.split(re.split(r"\s+#\s|\s[|>&]{1,2}\s", line)[0])[1:]
        understood(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_understood(page: Path) -> None:
    """A command that a sentence names exists, with its options; arguments may be left out."""
    bare = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    wrong = [fault(line) for line in re.findall(r"`(kaboost [a-z][^`\n]*)`", bare)]

    assert [] == [each for each in wrong if each]


def fault(line: str) -> str:
    """Say what is wrong with a command; NUMBER, FILE stand for 1, and arguments may be left out."""
    try:
        understood(shlex.split(re.sub(r"\b[A-Z]{2,}\b", "1", line))[1:])
    except TyperException as err:
        return "" if type(err).__name__ in LEFT_OUT else f"{line}: {err}"
    return ""


def understood(words: list[str]) -> None:
    """Parse a command line without running it."""
    command: Any = typer.main.get_command(cli.app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{words[0]} is no command"
        command, words = command.commands[words[0]], words[1:]
    with suppress(typer.Exit):  # --version, --help
        command.make_context("kaboost", list(words))


VARIABLE = re.compile(r"export (KABOOST_\w+__\w+)=('.*?'|\S+)")


@of(lambda block: bool(VARIABLE.search(block.text)))
def test_variables_are_settings(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exported is understood; what else is needed is the least there is."""
    for name, value in VARIABLE.findall(block.text):
        monkeypatch.setenv(name, shlex.split(value)[0])

    load(None, {"kafka.topic": "payments.v1", "task.kind": "binary"})


@of(lambda block: block.language == "json")
def test_json_is_json(block: Block) -> None:
    """A program could read it."""
    json.loads(block.text)


@of(lambda block: block.language == "" and bool(re.match(r"import |from ", block.text)))
def test_indented_programs_compile(block: Block) -> None:
    """A program that needs a broker is at least Python."""
    ast.parse(block.text)


PROGRAMS = [
    page
    for page in PAGES
    if str(page.relative_to(ROOT)) not in RUN_ELSEWHERE
    and any(block.language == "python" for block in blocks(page))
]


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of a page runs as it stands, one block after another."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}

    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.text, block.at, "exec"), names)


def test_docs_folder_is_read() -> None:
    """The pages of all folders of docs/ are among those that are checked."""
    assert set(DOCS.rglob("*.md")) <= set(PAGES)
