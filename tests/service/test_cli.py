"""The command line: what it prints, for people and as JSON, and its exit codes."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import kaboost
from kaboost.models.model import Model
from kaboost.service.cli import main
from kaboost.service.config.docs import page
from kaboost.service.config.settings import Settings
from kaboost.service.storage import files
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.state import State

ROOT = Path(__file__).parents[2]


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Say = Callable[..., Said]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Say:
    """Run a command in a folder with the smallest useful kaboost.yaml."""
    for name in os.environ:
        if name.startswith("KABOOST_"):
            monkeypatch.delenv(name)
    tree = {"task": {"kind": "binary"}, "features": {"schema": {"age": "number"}}}
    (tmp_path / "kaboost.yaml").write_text(yaml.safe_dump(tree))
    monkeypatch.chdir(tmp_path)

    def say(*arguments: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        printed = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Said(code, printed.out, printed.err)

    return say


@pytest.fixture
def saved(tmp_path: Path) -> list[Path]:
    """Two checkpoints where the configuration looks for them."""
    model = Model("binary", {"bank": {"kind": "linear", "n": 3}}, {"age": "number"})
    header = {"created": "2026-11-20T10:00:00Z", "events_learned": 5}
    store = FolderCheckpointStore(tmp_path / "data" / "checkpoints")
    state = State.initial(model, {0: 5})
    return [Path(store.write(header, state).name) for _ in range(2)]


COMMANDS = ["serve", "learner", "api", "demo", "models"]
COMMANDS += ["config show", "config schema", "config check"]
COMMANDS += ["checkpoints list", "checkpoints show", "checkpoints verify", "checkpoints diff"]
COMMANDS += ["dlq list", "dlq show", "dlq replay"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run: Say, command: str) -> None:
    """Every command explains itself and ends with an example of itself."""
    output = run(*command.split(), "--help")

    assert output.code == 0
    assert f"Example: kaboost {command}" in output.out


def test_help_is_quick() -> None:
    """Help loads no kernel: it is there before one would be."""
    loaded = "import sys; from kaboost.service.cli import app; print('numba' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert out == "False\n"


WITHOUT_NUMBA = """
import os, sys
from kaboost.service.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, 'numba' in sys.modules, 'NUMBA_DISABLE_JIT' in os.environ)
"""


@pytest.mark.parametrize(
    "command", ["config check", "config show", "models", "checkpoints list", "checkpoints verify"]
)
def test_commands_that_compute_nothing_load_no_compiler(
    run: Say, saved: list[Path], tmp_path: Path, command: str
) -> None:
    """They start without numba, and child processes would not inherit that."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_NUMBA, *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )

    assert "0 False False" == done.stdout.splitlines()[-1], done.stderr


def test_config_show(run: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every effective value stands there with its origin; secrets do not."""
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__SASL_PASSWORD", "hunter2")
    flags = ("--set", "kafka.topic=payments", "--set", "model.bank={kind: linear, n: 3}")
    output = run("config", "show", *flags)
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in output.out.splitlines()}
    printed = json.loads(run("config", "show", "--json", *flags).out)

    assert output.code == 0
    assert rows["key"] == ["value", "origin"]
    assert rows["kafka.topic"] == ["payments", "flag"]
    assert rows["task.kind"] == ["binary", "file kaboost.yaml"]
    assert rows["model.bank.n"] == ["3", "flag"]
    assert rows["model.loss.kind"] == ["logistic", "default"]
    assert rows["kafka.extra.sasl.password"] == [
        "**********",
        "env KABOOST_KAFKA__EXTRA__SASL_PASSWORD",
    ]
    assert [row["key"] for row in printed] == list(rows)[1:]
    assert "hunter2" not in output.out + json.dumps(printed)


def test_config_schema(run: Say) -> None:
    """The JSON Schema is that of the settings."""
    assert json.loads(run("config", "schema").out) == Settings.model_json_schema()
    assert run("config", "schema", "--json") == run("config", "schema")


def test_config_docs(run: Say) -> None:
    """The page of settings is printed as it stands in docs/."""
    assert run("config", "docs") == Said(0, page(), "")


def test_config_check(run: Say) -> None:
    """A configuration that holds is ok."""
    assert run("config", "check") == Said(0, "ok\n", "")
    assert json.loads(run("config", "check", "--json").out) == {"ok": True, "faults": []}


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--config", "no.yaml"), "configuration file no.yaml cannot be read"),
    (("--set", "kafka.topc=x"), "kafka.topc = 'x' (flag): unknown key; did you mean kafka.topic?"),
    (("--set", "kafka"), "--set kafka: write SECTION.KEY=VALUE"),
    (("--set", "kafka=x"), "--set kafka=x: write SECTION.KEY=VALUE"),
    (("--set", "api.port=x"), "api.port = 'x' (flag): should be a whole number"),
    (("--set", "kafka.extra.sasl.pasword=x"), 'No such configuration property: "sasl.pasword"'),
    (("--set", "kafka.extra.security.protocol=tls"), "kafka.extra: "),
    (("--set", "events.format=avroo"), "events.format: 'avroo' is unknown; use auto, json, avro"),
    (("--set", "events.format=avro"), "events.format: avro needs a schema"),
    (
        ("--set", "labels.topic=l", "--set", "labels.format=avroo"),
        "labels.format: 'avroo' is unknown; use auto, json, avro",
    ),
]


@pytest.mark.parametrize(("arguments", "printed"), REFUSED)
def test_refused_configuration(run: Say, arguments: tuple[str, ...], printed: str) -> None:
    """What does not hold ends with exit code 2 and one sentence, without a traceback."""
    output = run("config", "check", *arguments)

    assert output.code == 2
    assert output.out == ""
    assert output.err.startswith("kaboost: ")
    assert printed in output.err
    assert "Traceback" not in output.err


def test_refused_as_json(run: Say) -> None:
    """With --json, every fault is one entry of a list."""
    flags = ("--set", "kafka.topc=x", "--set", "api.port=x")
    output = run("config", "check", "--json", *flags)
    printed = json.loads(output.out)

    assert output.code == 2
    assert output.err == ""
    assert not printed["ok"]
    assert [fault.split()[0] for fault in printed["faults"]] == ["kafka.topc", "api.port"]


def test_no_file(run: Say, tmp_path: Path) -> None:
    """Where no configuration file was found, it is said where it was looked for."""
    (tmp_path / "kaboost.yaml").unlink()
    output = run("config", "check")

    assert output.code == 2
    assert f"no configuration file: there is no kaboost.yaml in {tmp_path}" in output.err
    assert "--config nor KABOOST_CONFIG" in output.err
    assert "task.kind: missing" in output.err


def test_version(run: Say) -> None:
    """The version is that of the installed package."""
    assert run("--version") == Said(0, f"kaboost {version('kaboost')}\n", "")


@pytest.mark.parametrize("role", ["serve", "learner", "api"])
def test_roles_refuse_too(run: Say, role: str) -> None:
    """No role starts with a configuration that does not hold."""
    output = run(role, "--set", "task.kind=x")

    assert output.code == 2
    assert "task.kind = 'x' (flag)" in output.err


@pytest.mark.parametrize("arguments", [["nope"], ["serve", "--nope"], ["config"]])
def test_usage(run: Say, arguments: list[str]) -> None:
    """A wrong command line ends with exit code 2."""
    assert run(*arguments).code == 2


def test_models(run: Say) -> None:
    """Every kind and every parameter of every part is listed, for people and as JSON."""
    printed = json.loads(run("models", "--json").out)
    listed = {(row["part"], row["kind"], row["parameter"]) for row in printed}
    expected = {
        (word, part.kind, name)
        for word, parts in (
            ("rule", kaboost.RULES),
            ("bank", kaboost.BANKS),
            ("loss", kaboost.LOSSES),
        )
        for part in parts.values()
        for name in ("", *(param.name for param in part.params))
    }

    assert listed == expected
    assert "bank  linear" in run("models").out


def test_models_choices(run: Say) -> None:
    """Every choice of a parameter is listed, and the task of every loss."""
    output = run("models").out
    params = [
        param
        for parts in (kaboost.RULES, kaboost.BANKS, kaboost.LOSSES)
        for part in parts.values()
        for param in part.params
    ]
    choices = {choice for param in params for choice in param.choices}

    assert {"nag", "sgd", "leaky_relu", "running", "cyclic"} <= choices
    assert [] == [choice for choice in choices if choice not in output]
    assert "fits binary" in next(line for line in output.splitlines() if "loss  logistic" in line)


def test_models_docs(run: Say) -> None:
    """The page of algorithms is what the command makes of the code, with every part and paper."""
    page = run("models", "--docs").out
    for parts in (kaboost.RULES, kaboost.BANKS, kaboost.LOSSES):
        for part in parts.values():
            assert f"### `{part.kind}`\n" in page
            assert part.source[1:] in page  # a sentence begins with a capital

    assert (ROOT / "docs" / "algorithms.md").read_text() == page


def test_no_checkpoints(run: Say) -> None:
    """Where there is none, that is said: show refuses, verify does not hold."""
    assert run("checkpoints", "list") == Said(0, "none\n", "")
    assert json.loads(run("checkpoints", "list", "--json").out) == []
    assert run("checkpoints", "verify") == Said(1, "none\n", "")
    output = run("checkpoints", "show")
    assert output.code == 3
    assert "there is no checkpoint in data/checkpoints" in output.err


def test_checkpoints(run: Say, saved: list[Path]) -> None:
    """The newest comes first, with its position and whether it can be read."""
    rows: list[dict[str, Any]] = json.loads(run("checkpoints", "list", "--json").out)

    assert [files.number(Path(row["file"])) for row in rows] == [2, 1]
    assert rows[0]["offsets"] == {"0": 5}
    assert rows[0]["bytes"] == saved[1].stat().st_size
    assert [row["state"] for row in rows] == ["ok", "ok"]
    assert run("checkpoints", "verify").code == 0


def test_dangling_checkpoint(run: Say, saved: list[Path]) -> None:
    """A link to nothing is damaged, of no bytes."""
    saved[0].unlink()
    saved[0].symlink_to("gone")
    output = run("checkpoints", "verify", "--json")
    row = json.loads(output.out)[1]

    assert (1, "damaged", 0) == (output.code, row["state"], row["bytes"])
    assert "it is a link to gone, which is not there" in row["reason"]
    assert run("checkpoints", "show", str(saved[0])).code == 3


def test_damaged_checkpoint(run: Say, saved: list[Path]) -> None:
    """One damaged file: the list says which, verify ends with exit code 1."""
    saved[0].write_bytes(saved[0].read_bytes()[:-1])
    output = run("checkpoints", "verify", "--json")

    assert output.code == 1
    assert [row["state"] for row in json.loads(output.out)] == ["ok", "damaged"]
    assert f"{saved[0].name} is damaged" in json.loads(output.out)[1]["reason"]
    assert run("checkpoints", "show", str(saved[0])).code == 3


def test_foreign_checkpoint(run: Say, saved: list[Path]) -> None:
    """A file of something else is called so, in one word; its reason has a line of its own."""
    saved[0].write_bytes(b"PK\x03\x04" + bytes(100))
    header, row, foreign, reason = run("checkpoints", "list").out.splitlines()
    shown = run("checkpoints", "show", str(saved[0]))

    assert header.split()[-1] == "state"
    assert (row.split()[-1], foreign.split()[-1]) == ("ok", "foreign")
    assert reason.startswith(f"{saved[0].relative_to(Path.cwd())} is ")
    assert shown.code == 3
    assert f"{saved[0]} is not a Kaboost file" in shown.err


def test_show_checkpoint(run: Say, saved: list[Path]) -> None:
    """One file's header and arrays: the newest, or the one that is named."""
    newest = run("checkpoints", "show").out
    named = {
        row["key"]: row["value"]
        for row in json.loads(run("checkpoints", "show", str(saved[0]), "--json").out)
    }

    assert "sequence" in newest
    assert (named["sequence"], named["offsets"]) == (1, {"0": 5})
    assert named["model"]["spec"]["bank"]["n"] == 3
    assert named["validation.loss_sum"] == "float64 [3]"
    assert run("checkpoints", "show", "gone.safetensors").code == 3
