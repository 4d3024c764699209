"""`kaboost init` and `kaboost doctor` on ten topics in the style of real ones, and on files."""

import csv
import gzip
import json
import random
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from kaboost.service.cli import main
from kaboost.service.config.settings import Settings, load
from kaboost.service.onboarding import machine_checks
from kaboost.service.onboarding.columns import Column
from kaboost.service.onboarding.machine_checks import check_kernels
from kaboost.service.onboarding.roles import classes, guess_id, guess_task
from kaboost.service.onboarding.state_checks import check_state
from tests.kafka.broker import Reachable
from tests.kafka.client import admin
from tests.ports import free_port
from tests.service.learning import learn_all, saved, settings_for
from tests.service.topics import COUNT, TOPICS, draw, fraud
from tests.specs import LINEAR

Send = Callable[..., None]
LOAD_KERNELS = """
import sys
from pathlib import Path

from kaboost.service.config.settings import load
from kaboost.service.processes.kernel_cache import in_folder, warm

file = Path(sys.argv[1])
warm(in_folder(load(file), file.parent / "loaded"))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of the test's own; `doctor` takes the kernels for compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine_checks, "is_compiled", lambda settings: True)
    return tmp_path


def run(*arguments: str) -> int:
    """Run a command; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def learnable(path: Path) -> Settings:
    """Load a written configuration with a light model and ports of the test's own."""
    tree = yaml.safe_load(path.read_text())
    del tree["features"]["schema"]["*"]  # so that every feature has to be named
    tree |= {"model": LINEAR, "api": {"port": 0}, "metrics": {"port": free_port()}}
    light = path.with_name("light.yaml")
    light.write_text(yaml.safe_dump(tree))
    return load(light)


def doctor(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    """Run `kaboost doctor --json`; return exit code and report."""
    capsys.readouterr()
    ports = [f"--set=api.port={free_port()}", f"--set=metrics.port={free_port()}"]
    code = run("doctor", "--json", *ports, *flags)
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, report


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in report["checks"]}


def details(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["detail"] for check in report["checks"]}


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_is_learned_as_it_is(
    name: str,
    topic: str,
    broker: Reachable,
    send: Send,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The written configuration learns every record, and doctor finds nothing wrong."""
    example = TOPICS[name]
    send(topic, draw(example))

    place = ["--bootstrap", broker.bootstrap, "--topic", topic]
    assert 0 == run("init", *place, "--yes", *example.flags)

    shown = capsys.readouterr().out
    assert f"{COUNT} of {COUNT} records can be learned" in shown
    assert shown.rstrip().endswith("kaboost serve --config kaboost.yaml")
    settings = learnable(folder / "kaboost.yaml")
    events = settings.events
    assert (example.label, example.task) == (events.label, settings.task.kind)
    assert (example.id, example.timestamp) == (events.id, events.timestamp)
    assert example.envelope == events.envelope
    assert set(example.ignored) <= set(events.ignore)
    assert example.kinds.items() <= settings.features.columns.items()
    code, report = doctor(capsys)
    rest = {**statuses(report), "compiled kernels": "green"}
    assert (0, {"green"}) == (code, set(rest.values()))
    learn_all(settings, COUNT)  # as many as were sent, so none is a dead letter
    assert {0: COUNT} == saved(settings)
    (check,) = check_state(settings)
    assert ("green", True) == (check.status, f"{COUNT} events learned" in check.detail)
    (check,) = check_state(settings.model_copy(update={"model": None}))
    assert ("red", True) == (check.status, "--cold-start" in check.remedy), check


def test_labels_of_another_topic_are_joined(
    make_topic: Callable[..., str],
    broker: Reachable,
    send: Send,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The id is found by its values on both topics, under another name."""
    features, labels = make_topic(), make_topic()
    source = random.Random(3)
    records = [fraud(source, k) for k in range(COUNT)]
    late = [
        {"charge": r["transaction_id"], "reported_at": r["ts"] + 86_400_000, "chargeback": i % 2}
        for i, r in enumerate(records)
    ]
    bare = [{k: v for k, v in r.items() if k != "is_fraud"} for r in records]
    send(features, [json.dumps(r).encode() for r in bare])
    send(labels, [json.dumps(r).encode() for r in late])

    place = ["--bootstrap", broker.bootstrap, "--topic", features, "--labels-topic", labels]
    assert 0 == run("init", *place, "--yes")

    settings = load(folder / "kaboost.yaml")
    assert "transaction_id" == settings.events.id
    assert ("charge", "chargeback") == (settings.labels.id, settings.labels.label)
    assert "binary" == settings.task.kind
    code, report = doctor(capsys)
    assert 0 == code
    assert {"green"} == {statuses(report)[name] for name in ("records", "label records", "labels")}


def test_nothing_is_left_on_the_broker(
    topic: str, broker: Reachable, send: Send, folder: Path
) -> None:
    """Both commands read only: no group, no topic, no offset."""
    send(topic, draw(TOPICS["clicks"]))
    client = admin(broker.bootstrap)
    before = groups_and_topics(client)

    place = ["--bootstrap", broker.bootstrap, "--topic", topic]
    assert 0 == run("init", *place, "--yes")
    run("doctor", f"--set=api.port={free_port()}", f"--set=metrics.port={free_port()}")

    assert before == groups_and_topics(client)


def groups_and_topics(client: AdminClient) -> set[str]:
    groups = client.list_consumer_groups().result(10).valid
    return {group.group_id for group in groups} | set(client.list_topics(timeout=10).topics)


def test_a_missing_topic_is_named(
    broker: Reachable, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing topic is red with a remedy; `init` ends with 4."""
    place = ["--bootstrap", broker.bootstrap, "--topic", "not-there"]
    assert 4 == run("init", *place, "--yes")
    assert "not-there does not exist: create it" in capsys.readouterr().err

    kafka = {"bootstrap_servers": broker.bootstrap, "topic": "not-there"}
    write(folder, kafka=kafka)
    code, report = doctor(capsys)

    assert 1 == code
    assert "red" == statuses(report)["topic"]
    assert all(check["remedy"] for check in report["checks"] if check["status"] != "green")


def test_a_missing_broker_is_red(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a broker the other checks are still done."""
    write(folder, kafka={"bootstrap_servers": f"127.0.0.1:{free_port()}", "topic": "t"})

    code, report = doctor(capsys)

    assert (1, "red") == (code, report["status"])
    assert "red" == statuses(report)["broker"]
    assert "green" == statuses(report)["api.port"]


def test_faults_are_grouped(
    topic: str, broker: Reachable, send: Send, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records that the decoder rejects are counted by code, with an example and its remedy."""
    send(topic, [b"{", b'{"a": 1}', b'{"a": 2}', b'{"features": {"a": 1}, "label": 1}'])
    write(folder, kafka={"bootstrap_servers": broker.bootstrap, "topic": topic})

    code, report = doctor(capsys)

    details = {check["name"]: check["detail"] for check in report["checks"]}
    assert 1 == code
    assert details["records rejected: schema"].startswith("2, such as: ")
    assert details["records rejected: json"].startswith("1, such as: not JSON")


def test_a_registry_frame_is_named(
    topic: str, broker: Reachable, send: Send, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Framed records ask for the registry, by the id of their schema."""
    send(topic, [b"\0\0\0\0\x05abc"] * 3)

    assert 2 == run("init", "--bootstrap", broker.bootstrap, "--topic", topic, "--yes")
    assert "schema id 5: pass --registry URL" in capsys.readouterr().err


def test_a_taken_port_and_a_closed_folder_are_red(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each names the setting."""
    (folder / "file").write_text("")
    port = free_port()
    write(
        folder,
        kafka={"bootstrap_servers": f"127.0.0.1:{free_port()}"},
        snapshots={"directory": "file/snapshots"},
    )

    with socket.create_server(("127.0.0.1", port)):
        code, report = doctor(capsys, f"--set=api.port={port}")

    assert 1 == code
    assert "red" == statuses(report)["api.port"]
    assert "red" == statuses(report)["snapshots.directory"]


def test_a_wrong_configuration_is_red(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a check like the others, not a stack trace."""
    (folder / "kaboost.yaml").write_text("task: {kind: guess}")

    code, report = doctor(capsys)

    assert 1 == code
    assert {"configuration": "red"} == statuses(report)


def test_kernels_are_those_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of other kernels in the cache are no reason for green: the first start compiles."""
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    settings = settings_for("127.0.0.1:9", tmp_path, "t")
    load_all = [sys.executable, "-c", LOAD_KERNELS, str(tmp_path / "kaboost.json")]
    subprocess.run(load_all, cwd=Path(__file__).parents[2], check=True)
    assert "green" == check_kernels(settings).status

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "x.nbi").write_bytes(b"")
    check = check_kernels(settings)

    assert "yellow" == check.status
    assert f"some of this configuration are not in {tmp_path}" == check.detail
    assert "the first start compiles for about a minute" in check.remedy


def records(count: int = 60) -> list[dict[str, Any]]:
    """Flat records for files."""
    source = random.Random(5)
    return [
        {"id": k, "price_paid": round(source.random(), 2), "label": source.choice([0, 1])}
        for k in range(count)
    ]


def as_csv(path: Path) -> None:
    """Write the records as CSV, compressed."""
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, ["id", "price_paid", "label"])
        writer.writeheader()
        writer.writerows(records())


def as_lines(path: Path) -> None:
    """Write the records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records()))


def as_parquet(path: Path) -> None:
    """Write the records as Parquet."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(records()), path)


@pytest.mark.parametrize(
    ("name", "write_file"),
    [("a.csv.gz", as_csv), ("a.jsonl", as_lines), ("a.parquet", as_parquet)],
)
def test_a_file_is_read(name: str, write_file: Callable[[Path], None], folder: Path) -> None:
    """Every format of files gives the same configuration."""
    write_file(folder / name)

    assert 0 == run("init", name, "--topic", "sales", "--yes", "--output", "k.yaml")

    settings = load(folder / "k.yaml")
    assert ("sales", "id", "label") == (
        settings.kafka.topic, settings.events.id, settings.events.label
    )  # fmt: skip
    assert ("binary", None) == (settings.task.kind, settings.task.labels)
    assert "number" == settings.features.columns["price_paid"]


def test_a_file_is_never_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only with --force."""
    as_lines(folder / "a.jsonl")
    (folder / "kaboost.yaml").write_text("# mine")

    assert 2 == run("init", "a.jsonl", "--yes")
    assert "pass --force" in capsys.readouterr().err
    assert "# mine" == (folder / "kaboost.yaml").read_text()
    assert 0 == run("init", "a.jsonl", "--yes", "--force")


def test_what_cannot_be_guessed_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal the message names the flag and the candidates."""
    rows = [{"a": k % 3, "b": k % 5} for k in range(30)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))

    assert 2 == run("init", "a.jsonl")
    message = capsys.readouterr().err
    assert "--label: cannot be guessed" in message
    assert "candidates: " in message


def test_a_column_that_reveals_the_label_is_named(folder: Path) -> None:
    """The warning is in the file."""
    (folder / "a.jsonl").write_bytes(b"\n".join(draw(TOPICS["churn"])))

    assert 0 == run("init", "a.jsonl", "--yes")
    text = (folder / "kaboost.yaml").read_text()
    assert "# WARNING: contract_end_reason has one value for each churned" in text


def test_comments_cannot_break_the_file(folder: Path) -> None:
    """Names and values of any text stay within their line."""
    rows = [{"a\tb: [x": f"v\n- {k % 4}", "label": k % 2, "off": 1.5 * k} for k in range(40)]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))

    assert 0 == run("init", "a.jsonl", "--yes", "--label", "label")
    tree = yaml.safe_load((folder / "kaboost.yaml").read_text())
    assert "off" in tree["features"]["schema"]


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        ([0, 1] * 20, "binary", None),
        ([True, False] * 20, "binary", None),
        (["0", "1"] * 20, "binary", None),
        (["fraud", "legit"] * 20, "binary", ["legit", "fraud"]),
        (["won", "lost"] * 20, "binary", ["lost", "won"]),
        ([1, 2] * 20, "binary", [1, 2]),
        (["a", "b", "c"] * 20, "multiclass", ["a", "b", "c"]),
        ([1.5, 2, 3] * 20, "regression", None),
        (["1.5", "2", "3"] * 20, "regression", None),
    ],
)
def test_tasks(values: list[Any], task: str, labels: list[Any] | None) -> None:
    """The task and the order of classes are those of the label's values."""
    column = Column("label", ("label",), values)

    assert task == guess_task(column)
    assert labels == classes(column, task)


def test_a_repeated_id_is_no_id() -> None:
    """An id that comes twice would be skipped as a duplicate."""
    once = Column("id", ("id",), list(range(40)))

    assert once == guess_id([once])
    assert guess_id([once._replace(values=[k // 2 for k in range(40)])]) is None


def write(folder: Path, **sections: Any) -> None:
    """Write a small configuration."""
    tree = {"task": {"kind": "binary"}, **sections}
    (folder / "kaboost.yaml").write_text(yaml.safe_dump(tree))
