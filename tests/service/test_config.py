"""Settings: where values come from, what is refused and in which words, what is never shown."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kaboost.service.config.docs import page
from kaboost.service.config.settings import Settings, load, origins, values
from kaboost.service.errors import ConfigError
from kaboost.service.listings import check_client

ROOT = Path(__file__).parents[2]
SECRET = "hunter2"
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see no KABOOST_ variable but those they set."""
    for name in os.environ:
        if name.startswith("KABOOST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a configuration file: the smallest useful one, with what is given on top."""

    def write(**sections: Any) -> Path:
        tree = {"task": {"kind": "binary"}, "features": {"schema": {"age": "number"}}, **sections}
        path = tmp_path / "kaboost.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    return write


def refusal(path: Path | None, **flags: object) -> str:
    """Load what must be refused; give the sentence."""
    with pytest.raises(ConfigError) as caught:
        load(path, flags)
    assert caught.value.exit_code == 2
    return str(caught.value)


def show(settings: Settings) -> dict[str, tuple[Any, str]]:
    """Give value and origin by dotted name."""
    where = origins(settings)
    return {".".join(path): (value, where[path]) for path, value in values(settings).items()}


def test_smallest_file(write: Write) -> None:
    """Task and schema are all that must be set."""
    settings = load(write())

    assert settings.features.columns == {"age": "number"}
    assert settings.kafka.dlq == "kaboost.events.v1.dlq"
    assert settings.api.host == "127.0.0.1"
    assert settings.model is None


def test_precedence(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags go before environment, secrets, file and default; each origin is named."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "kafka__topic").write_text("from-secret\n")
    path, seen = write(), []
    seen.append(show(load(path))["kafka.topic"])
    write(kafka={"topic": "from-file"})
    seen.append(show(load(path))["kafka.topic"])
    monkeypatch.setenv("KABOOST_SECRETS_DIR", str(tmp_path / "secrets"))
    seen.append(show(load(path))["kafka.topic"])
    monkeypatch.setenv("KABOOST_KAFKA__TOPIC", "from-env")
    seen.append(show(load(path))["kafka.topic"])
    seen.append(show(load(path, {"kafka.topic": "from-flag"}))["kafka.topic"])

    assert seen == [
        ("kaboost.events.v1", "default"),
        ("from-file", f"file {path}"),
        ("from-secret", f"secret in {tmp_path / 'secrets'}"),
        ("from-env", "env KABOOST_KAFKA__TOPIC"),
        ("from-flag", "flag"),
    ]


def test_everything_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is needed; lists and mappings are JSON, the model's numbers are numbers."""
    monkeypatch.setenv("KABOOST_TASK__KIND", "multiclass")
    monkeypatch.setenv("KABOOST_TASK__LABELS", '["a", 2, true]')
    monkeypatch.setenv("KABOOST_FEATURES__SCHEMA", '{"Age": "number"}')
    monkeypatch.setenv("KABOOST_MODEL__BANK", '{"kind": "linear", "n": 3}')
    monkeypatch.setenv("KABOOST_MODEL__SEED", "7")
    settings = load(None)

    assert settings.task.labels == ["a", 2, True]
    assert [type(label) for label in settings.task.labels] == [str, int, bool]
    assert settings.features.columns == {"Age": "number"}
    assert show(settings)["model.bank.n"] == (3, "env KABOOST_MODEL__BANK")
    assert show(settings)["model.seed"] == (7, "env KABOOST_MODEL__SEED")


def test_layers_merge_key_by_key(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable below a mapping of the file changes that one key; a bare word keeps its kind."""
    monkeypatch.setenv("KABOOST_MODEL__BANK__N", "5")
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__SASL_USERNAME", "007")
    path = write(model={"bank": "nets"}, kafka={"extra": {"client.id": "k", "sasl.username": "x"}})
    shown = show(load(path))

    assert shown["model.bank.kind"] == ("nets", f"file {path}")
    assert shown["model.bank.n"] == (5, "env KABOOST_MODEL__BANK__N")
    assert shown["kafka.extra.client.id"] == ("k", f"file {path}")
    assert shown["kafka.extra.sasl.username"][0] == "007"


def test_overrides_keep_the_order(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features stay in the order of the file, which is the model's; only new ones go last."""
    path = write()
    path.write_text("task: {kind: binary}\nfeatures: {schema: {c: category, a: number}}\n")
    flagged = load(path, {"features.schema.c": "boolean"})
    monkeypatch.setenv("KABOOST_FEATURES__SCHEMA", '{"new": "number", "c": "category"}')
    overridden = load(path)

    assert list(flagged.features.columns.items()) == [("c", "boolean"), ("a", "number")]
    assert list(overridden.features.columns) == ["c", "a", "new"]


def test_plain_yaml_values(tmp_path: Path) -> None:
    """`no` and dates are words, 1e-3 is a number, as YAML 1.2 has it."""
    path = tmp_path / "k.yaml"
    path.write_text(
        "task: {kind: binary, labels: [no, yes]}\n"
        "features: {schema: {on: boolean}}\n"
        "kafka: {start_from: 2026-11-20T10:00:00Z, extra: {sasl.username: 007}}\n"
        "model: {bank: {kind: linear, lr: 1e-3}}\n"
    )
    settings = load(path)

    assert settings.task.labels == ["no", "yes"]
    assert settings.features.columns == {"on": "boolean"}
    assert settings.kafka.start_ms == 1_795_168_800_000
    assert settings.kafka.extra["sasl.username"] == "007"
    assert show(settings)["model.bank.lr"][0] == 1e-3


REFUSALS: list[tuple[dict[str, Any], list[str]]] = [
    ({"topic": "x"}, ["topic = 'x'", "unknown key", "did you mean kafka.topic?"]),
    ({"kafka": {"topc": "x"}}, ["kafka.topc = 'x'", "did you mean kafka.topic?"]),
    ({"features": {"amount": "number"}}, ["unknown key", "did you mean features.schema.amount?"]),
    (
        {"snapshots": {"directory": __file__}},
        ["snapshots.directory = ", "is not a folder; name a folder"],
    ),
    ({"checkpoints": {"directory": __file__}}, ["checkpoints.directory = ", "is not a folder"]),
    ({"zzz": 1}, ["zzz = 1", "known keys: name, kafka, task"]),
    ({"api": {"port": 70000}}, ["api.port = 70000", "less than or equal to 65535"]),
    ({"api": {"port": 9464}}, ["metrics: port 9464 is also api.port; change one"]),
    ({"api": {"port": 9464, "host": "localhost"}}, ["port 9464 is also api.port"]),
    ({"api": {"port": 9464, "host": "0.0.0.0"}}, ["port 9464 is also api.port"]),
    ({"api": {"port": "http"}}, ["api.port = 'http'", "should be a whole number"]),
    ({"snapshots": {"every_seconds": 0}}, ["snapshots.every_seconds = 0", "greater than 0"]),
    (
        {"kafka": {"bootstrap_servers": "http://a:9092"}},
        ["'http://a:9092' is no broker", "host:port"],
    ),
    ({"kafka": {"bootstrap_servers": "a:1,b:abc"}}, ["'b:abc' is no broker address"]),
    ({"kafka": {"bootstrap_servers": "a:70000"}}, ["'a:70000' is no broker address"]),
    ({"kafka": {"topic": "a b"}}, ["kafka.topic = 'a b'", "match pattern"]),
    ({"kafka": {"topic": "t", "dlq_topic": "t"}}, ["kafka.dlq_topic = 't'", "name another"]),
    ({"kafka": {"start_from": "noon"}}, ["kafka.start_from = 'noon'", "earliest, latest or"]),
    ({"kafka": {"start_from": "2026-01-01"}}, ["start_from = '2026-01-01'", "offset"]),
    ({"kafka": {"extra": {"group.id": "g"}}}, ["kafka.extra", "group.id", "kafka.group_id"]),
    ({"kafka": {"extra": {"ssl.ca": [1]}}}, ["kafka.extra.ssl.ca = [1]", "a number or text"]),
    ({"task": {"kind": "binry"}}, ["task.kind = 'binry'", "'regression', 'binary' or"]),
    ({"task": {}}, ["task.kind: missing", "set KABOOST_TASK__KIND"]),
    ({"task": {"kind": "multiclass"}}, ["task.labels", "needs the list"]),
    ({"task": {"kind": "binary", "labels": ["a"]}}, ["task.labels = ['a']", "give two"]),
    (
        {"features": {}, "model": {"bank": "linear"}},
        ["features: kinds are inferred", "name every feature", "reboosted_trees"],
    ),
    ({"features": {"schema": {}}}, ["features.schema = {}", "at least one"]),
    ({"features": {"schema": {"a": "int"}}}, ["features.schema.a = 'int'", "'category'"]),
    ({"features": {"schema": {"a": "auto", "b": "float"}}}, ["features.schema.b", "'number'?"]),
    (
        {"features": {"schema": {"a": ["number"]}}},
        ["schema.a = ['number']", "be one of"],
    ),
    ({"features": {"schema": {"a": "auto"}}}, ["features.a", "to infer kinds write '*': auto"]),
    ({"features": {"schema": {1: "number"}}}, ["features.schema", "key 1", "quotes"]),
    ({"model": {"bank": "linaer"}}, ["model = ", "did you mean 'linear'?"]),
    ({"model": {"loss": "squared"}}, ["model = ", "does not support a binary task"]),
    ({"model": {"bank": "conv"}}, ["model = ", "28 x 28", "; take"]),
    ({"model": {"rule": "gb"}}, ["model = ", "kaboost.fit", "or take sgb"]),
    ({"model": {"rule": {"kind": "sgb", "averaged": True}}}, ["model = ", "nag", "another step"]),
    ({"kafka": "payments"}, ["kafka (file ", "one value where a section belongs; write", "topic"]),
    ({"kafka": None}, ["kafka (file ", "empty where a section belongs", "bootstrap_servers"]),
    ({"features": "atuo"}, ["features (file ", "write auto, or write below it any of schema"]),
    ({"features": None}, ["empty where a section", "write auto, or write below it any of schema"]),
    ({"task": {"kind": "multiclass"}}, ["task.labels: missing", "set KABOOST_TASK__LABELS"]),
    ({"log": {"level": "loud"}}, ["log.level = 'loud'", "'debug'"]),
]


@pytest.mark.parametrize(("sections", "words"), REFUSALS, ids=lambda value: str(value)[:40])
def test_refusals(write: Write, sections: dict[str, Any], words: list[str]) -> None:
    """A refusal names the key, the value and the remedy."""
    message = refusal(write(**sections))

    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("given", ["a:9092, b:9093", "SASL_SSL://a.b-c:9096", "[::1]:9092", "a"])
def test_addresses_of_brokers(write: Write, given: str) -> None:
    """What librdkafka takes for an address is taken."""
    path = write(kafka={"bootstrap_servers": given})

    assert given == load(path).kafka.bootstrap_servers


def test_one_port_of_two_hosts(write: Write) -> None:
    """Both listeners may use the same port on different addresses."""
    path = write(api={"port": 9464, "host": "10.0.0.1"})

    assert 9464 == load(path).metrics.port


def test_all_faults_at_once(write: Write) -> None:
    """Every fault is told in one go, each with the origin of its value."""
    path = write(kafka={"topc": "x"}, api={"port": 0.5}, task={"kind": "x"})

    message = refusal(path).splitlines()

    assert len(message) == 3
    assert sum(f"(file {path})" in line for line in message) == 3


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("KABOOST_TOPIC", "x", ["KABOOST_TOPIC is not a setting", "KABOOST_KAFKA__TOPIC?"]),
        ("KABOOST_API_PORT", "80", ["KABOOST_API_PORT is not", "KABOOST_API__PORT?"]),
        ("KABOOST_QQQQQ", "80", ["KABOOST_QQQQQ is not a setting", "docs/settings.md"]),
        ("KABOOST_KAFKA__TOPC", "x", ["kafka.topc = 'x' (env KABOOST_KAFKA__TOPC)", "topic?"]),
        ("KABOOST_TASK__LABELS", "a,b", ["task.labels = 'a,b'", '["a", "b"] in a variable']),
        ("KABOOST_FEATURES", "{", ["environment variable KABOOST_FEATURES is not JSON"]),
        ("KABOOST_FEATURES__SCHEMA", "{age: number}", ["KABOOST_FEATURES__SCHEMA is not JSON"]),
        ("KABOOST_SECRETS_DIR", "/nowhere", ["KABOOST_SECRETS_DIR = /nowhere", "name a directory"]),
    ],
)
def test_environment_refusals(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: list[str]
) -> None:
    """A variable that sets nothing, or nothing sensible, is refused by its name."""
    monkeypatch.setenv(name, value)

    message = refusal(write())

    assert [word for word in words if word not in message] == []


def test_key_with_an_underscore(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's `log_level` keeps its underscore in every source; others become dots."""
    from_file = load(write(kafka={"extra": {"log_level": 3, "client_id": "k"}}))
    from_flag = load(write(), {"kafka.extra.log_level": "3"})
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__LOG_LEVEL", "3")
    monkeypatch.setenv("KABOOST_KAFKA__EXTRA__CLIENT_ID", "k")
    from_variable = load(write())

    assert {"log_level": 3, "client.id": "k"} == from_file.kafka.extra
    assert {"log_level": "3"} == from_flag.kafka.extra
    assert {"log_level": "3", "client.id": "k"} == from_variable.kafka.extra
    for settings in (from_file, from_flag, from_variable):
        check_client(settings)


@pytest.mark.parametrize("flag", [None, "[a:1, b]"])
def test_list_of_brokers(write: Write, flag: str | None) -> None:
    """Brokers may be a list, in the file or in a flag."""
    path = write(kafka={"bootstrap_servers": ["a:1", "b"]})
    flags = {} if flag is None else {"kafka.bootstrap_servers": flag}

    assert "a:1,b" == load(path, flags).kafka.bootstrap_servers
    assert "'a:x' is no broker address" in refusal(write(kafka={"bootstrap_servers": ["a:x"]}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KABOOST_PORT", "tcp://10.0.0.1:8000"),
        ("KABOOST_API_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("KABOOST_API_SERVICE_HOST", "10.0.0.1"),
        ("KABOOST_SERVICE_PORT_HTTP", "8000"),
        ("KABOOST_TEST_BOOTSTRAP", "127.0.0.1:9092"),
    ],
)
def test_foreign_names(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """What Kubernetes makes for a service called kaboost stops nothing."""
    monkeypatch.setenv(name, value)

    assert load(write()).api.port == 8000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kafka: {topic: a, topic: b}", ["the key 'topic' occurs twice", "line 1"]),
        ("a: [", ["is not YAML", "line 1"]),
        ("just words", ["write sections", "'just words'"]),
    ],
)
def test_broken_files(tmp_path: Path, text: str, words: list[str]) -> None:
    """A file that cannot be read as sections is refused with its name."""
    path = tmp_path / "k.yaml"
    path.write_text(text)
    message = refusal(path)

    assert [word for word in [str(path), *words] if word not in message] == []
    assert "cannot be read" in refusal(tmp_path / "missing.yaml")


HIDING_KEYS = [
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
]


@pytest.mark.parametrize("key", HIDING_KEYS)
def test_secrets_are_hidden(write: Write, key: str) -> None:
    """A secret is nowhere but in the client's own configuration."""
    settings = load(write(kafka={"extra": {key: SECRET, "enable.ssl": True}}))

    assert settings.kafka.client()[key] == SECRET
    assert settings.kafka.client()["enable.ssl"] == "true"
    assert show(settings)[f"kafka.extra.{key}"][0] == "**********"
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()


def test_plain_keys_are_shown(write: Write) -> None:
    """What only sounds like a secret is shown."""
    extra = {"ssl.key.location": "/k.pem", "sasl.oauthbearer.token.endpoint.url": "https://a"}
    shown = show(load(write(kafka={"extra": extra})))

    assert shown["kafka.extra.ssl.key.location"][0] == "/k.pem"
    assert shown["kafka.extra.sasl.oauthbearer.token.endpoint.url"][0] == "https://a"


@pytest.mark.parametrize(
    "kafka",
    [
        {"extra": {"sasl.password": [SECRET]}},
        {"extra": {"sasl.password": SECRET, "group.id": "g"}},
        {"extra": {"sasl.password": SECRET}, "topic": "t", "dlq_topic": "t"},
        {"extra": {"sasl.password": SECRET}, "topc": "t"},
        {"extra": f"sasl.password={SECRET}"},
        f"sasl.password={SECRET}",
    ],
)
def test_refusals_tell_no_secret(write: Write, kafka: object) -> None:
    """No fault beside a secret prints it."""
    assert SECRET not in refusal(write(kafka=kafka))


def test_broken_line_tells_no_secret(tmp_path: Path) -> None:
    """A line that is not YAML may hold the password: only its number is told."""
    path = tmp_path / "k.yaml"
    path.write_text(f'kafka: {{extra: {{sasl.password: "{SECRET}}}}}\n')

    assert SECRET not in refusal(path)


def test_secret_from_a_file(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mounted secrets directory gives what the configuration leaves out."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "kafka__extra__sasl_password").write_text(f"{SECRET}\n")
    (folder / "of-another-program").write_text("x")
    monkeypatch.setenv("KABOOST_SECRETS_DIR", str(folder))
    settings = load(write())

    assert settings.kafka.client()["sasl.password"] == SECRET
    assert show(settings)["kafka.extra.sasl.password"] == ("**********", f"secret in {folder}")


def test_settings_are_frozen(write: Write) -> None:
    """Nothing changes after the start."""
    settings = load(write())

    with pytest.raises(ValueError, match="frozen"):
        settings.kafka.topic = "x"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.name = "x"  # type: ignore[misc]


def test_flags_hold_lists(write: Write) -> None:
    """A list or mapping in a flag is read as YAML."""
    assert load(write(), {"task.labels": "[a, b]"}).task.labels == ["a", "b"]
    assert show(load(write(), {"model.seed": "3"}))["model.seed"] == (3, "flag")


def test_schema_is_json() -> None:
    """The JSON Schema names what is required and refuses unknown keys."""
    schema = json.loads(json.dumps(Settings.model_json_schema()))

    assert schema["required"] == ["task"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Api"]["properties"]["port"]["maximum"] == 65535


def test_page_of_settings() -> None:
    """docs/settings.md is what the code says: `kaboost config docs > docs/settings.md` mends it."""
    assert (ROOT / "docs" / "settings.md").read_text() == page()


def fields_of(section: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the settings below the sections, by name."""
    for name, part in section.model_fields.items():
        key = f"{prefix}{part.alias or name}"
        if hasattr(part.annotation, "model_fields"):
            yield from fields_of(part.annotation, f"{key}.")
        elif prefix:
            yield key, part


def test_page_has_every_setting(write: Write) -> None:
    """Every setting has a heading, its environment name and a description."""
    text = page()
    fields = list(fields_of(Settings))
    missing = [
        name
        for name, part in fields
        if f"### {name}\n\n{part.description}\n" not in text
        or f"`KABOOST_{name.replace('.', '__')}`".upper() not in text.upper()
    ]

    assert len(fields) > 30
    assert missing == []


def test_example_file() -> None:
    """The example loads, and says everything it sets with a value of its own."""
    settings = load(ROOT / "kaboost.example.yaml")

    assert settings.kafka.topic == "payments.v1"
    assert settings.task.labels == ["legitimate", "fraud"]


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"labels": {"topic": "b", "expired": {"label": 7}}}, "7 is not one of 0, 1"),
        ({"labels": {"topic": "a"}}, "topic a is also that of events"),
        ({"labels": {"topic": "a.dlq"}}, "topic a.dlq is also that of events"),
        ({"labels": {"topic": "b"}, "events": {"label": "y"}}, "events.id is not set"),
        (
            {"labels": {"topic": "b"}, "model": {"river": "linear_model.LogisticRegression"}},
            "a River model cannot wait for labels.topic",
        ),
        ({"labels": {"wait": "3d"}}, "topic is not set, so labels come with their events"),
        ({"predictions": {"topic": "a"}}, "predictions have no label: set labels.topic"),
        ({"predictions": {"topic": "a.dlq"}}, "also that of labels or dead letters"),
        ({"predictions": {"topic": "b"}, "labels": {"topic": "b"}}, "also that of labels"),
        (
            {
                "predictions": {"topic": "a"},
                "labels": {"topic": "b"},
                "events": {"id": "order_id"},
            },
            "predictions are JSON with id and features",
        ),
    ],
)
def test_late_labels_that_cannot_work_are_refused(
    tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    """What the learner would fail at later is refused with the configuration."""
    path = tmp_path / "kaboost.json"
    path.write_text(json.dumps({"kafka": {"topic": "a"}, "task": {"kind": "binary"}, **changes}))

    with pytest.raises(ConfigError, match=re.escape(part)):
        load(path)
