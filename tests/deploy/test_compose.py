"""docker-compose.yml: all that it names exists and parses, and its command lines run."""

import gzip
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import compose_spec
import httpx
import pytest
import yaml
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from kaboost.service.config.settings import load
from kaboost.service.demo import producer
from tests.deploy import dockerfile
from tests.deploy.composition import FILE, ROOT, Outside, Service, Started, order, services
from tests.kafka.broker import VERSION, BrokerUnavailable
from tests.kafka.client import admin
from tests.service.learning import until

SERVICES = services()
NAMES = ["kafka", "topics", "kaboost", "producer", "prometheus", "grafana"]
ROWS = 200  # of the file that the producer has here: it must begin again within seconds
NO_PROGRAM = {"grafana"}  # no package registry has it
# As conf/defaults.ini of Grafana has them: GF_SECTION_KEY.
GRAFANA = {
    "GF_ANALYTICS_CHECK_FOR_UPDATES",
    "GF_ANALYTICS_REPORTING_ENABLED",
    "GF_AUTH_ANONYMOUS_ENABLED",
    "GF_AUTH_ANONYMOUS_ORG_ROLE",
    "GF_AUTH_DISABLE_LOGIN_FORM",
    "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH",
    "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION",
}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Started]]:
    """Every service started in the order that its conditions ask for, all well."""
    folder = tmp_path_factory.mktemp("compose")
    short = folder / "short.csv.gz"
    with gzip.open(producer.ELEC2) as whole:
        short.write_bytes(gzip.compress(b"".join(islice(whole, ROWS + 1))))
    started: dict[str, Started] = {}
    try:
        outside = Outside(folder, {"./data/elec2.csv.gz": short})
        for service in order(SERVICES):
            if service.name not in NO_PROGRAM:
                await_conditions(service, started)
                started[service.name] = Started(outside, service)
        for each in started.values():
            await_well(each)
        yield started
    except BrokerUnavailable as err:
        pytest.fail(str(err), pytrace=False)
    finally:
        for each in reversed(started.values()):
            each.close()


def await_conditions(service: Service, started: dict[str, Started]) -> None:
    """Wait for what `depends_on` says."""
    for name, condition in service.conditions.items():
        if condition == "service_completed_successfully":
            assert 0 == started[name].done(), started[name].log()
        else:
            assert "service_healthy" == condition
            started[name].wait_healthy()


def await_well(each: Started) -> None:
    """Wait as `--wait` does: healthy, or running where there is no health check."""
    if each.service.is_once:
        assert 0 == each.done(), each.log()
    elif each.service.health:
        each.wait_healthy()
    else:
        assert each.process.poll() is None, each.log()


def test_fits_the_specification() -> None:
    """The file is what the compose specification allows, and refers to nothing that it lacks."""
    read = compose_spec.PyOptions(apply_merge=True).from_yaml(FILE.read_text())
    read.validate()

    assert NAMES == read.service_names() == list(SERVICES)
    assert "$" not in FILE.read_text(), "a variable of the shell: the file is whole by itself"


@pytest.mark.parametrize("service", SERVICES.values(), ids=NAMES)
def test_images_are_pinned(service: Service) -> None:
    """An image is built from this checkout, or has its whole version."""
    if service.is_ours:
        assert (".", "build") == (service.raw["build"], service.raw["pull_policy"])
    else:
        assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", service.image)
    if "kafka" in service.image:
        assert service.image.endswith(f":{VERSION}"), "not the Kafka that the tests run"


def test_ports_are_open_inside_and_free_outside() -> None:
    """Each port is given to this machine alone, to one service, which listens on it."""
    given = [(name, *port) for name, service in SERVICES.items() for port in service.ports]

    assert {"127.0.0.1"} == {address for _, address, _, _ in given}
    assert len(given) == len({outer for _, _, outer, _ in given})
    assert [] == [(name, inner) for name, _, _, inner in given if inner not in listening(name)]


def listening(name: str) -> set[str]:
    """The ports that a service's own texts say it listens on."""
    service = SERVICES[name]
    if service.is_ours:
        return set(dockerfile.last("EXPOSE").split())
    texts = [service.own.get("KAFKA_LISTENERS", ""), *service.argv]
    if name == "grafana":  # its default; the health check asks there
        texts = service.health
    return {port for text in texts for port in re.findall(r":(\d+)\b", text)}


def test_addresses_lead_to_services() -> None:
    """Whatever is asked at `service:port`, in the file or in what it mounts, listens there."""
    mounted = [path for service in SERVICES.values() for path in files(service)]
    texts = [path.read_text() for path in [FILE, *mounted] if path.suffix in (".yml", ".yaml")]
    pattern = re.compile(rf"\b({'|'.join(NAMES)}):(\d+)\b(?!\.)")  # a version has dots
    found = {pair for text in texts for pair in pattern.findall(text)}

    assert {("kafka", "19092"), ("kaboost", "8000"), ("prometheus", "9090")} <= found
    assert [] == [(name, port) for name, port in found if port not in listening(name)]


def files(service: Service) -> Iterator[Path]:
    """Every file of the checkout that a service mounts."""
    for mount in service.mounts:
        if mount.is_file:
            path = ROOT / mount.source
            yield from [path] if path.is_file() else filter(Path.is_file, path.rglob("*"))


def test_mounts_are_there() -> None:
    """Files come from the checkout, read-only; every other volume is declared, and used."""
    mounts = [mount for service in SERVICES.values() for mount in service.mounts]
    named = {mount.source for mount in mounts if not mount.is_file}

    assert [] == [m.source for m in mounts if m.is_file and not (ROOT / m.source).exists()]
    assert {"ro"} == {mount.mode for mount in mounts if mount.is_file}
    assert set(yaml.safe_load(FILE.read_text())["volumes"]) == named


@pytest.mark.parametrize("name", ["prometheus", "grafana"])
def test_paths_lead_into_mounts(name: str) -> None:
    """A path that a command, variable or provisioning file names is mounted, and is there."""
    service = SERVICES[name]
    texts = [*service.argv, *service.own.values()]
    texts += [path.read_text() for path in files(service) if "provisioning" in path.parts]
    paths = {path for text in texts for path in re.findall(r"(?<![\w/.])/(?:etc|var)/\S+", text)}

    assert paths
    assert [] == [path for path in paths if not exists(service, path)]


def exists(service: Service, path: str) -> bool:
    """Say whether a path inside a container is a file or folder of the checkout."""
    found = [
        ROOT / mount.source / Path(path).relative_to(mount.target)
        for mount in service.mounts
        if mount.is_file and Path(path).is_relative_to(mount.target)
    ]
    return any(each.exists() for each in found)


def test_kaboost_takes_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """File and variables are settings of ours, and fit the data that the producer sends."""
    service = SERVICES["kaboost"]
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    (path,) = files(service)
    settings = load(path)

    assert service.mounts[1].target == service.environment["KABOOST_CONFIG"]
    assert producer.schema() == settings.features.columns
    assert {label for _, label in producer.rows()} == {*(settings.task.labels or [])}
    assert settings.kafka.topic in SERVICES["topics"].argv
    assert settings.kafka.topic in SERVICES["producer"].argv
    assert "/data" == str(Path("/", settings.snapshots.directory).parent)
    assert "/data" == str(Path("/", settings.checkpoints.directory).parent)


def test_grafana_takes_its_variables() -> None:
    """Each is a setting of Grafana, and none is a password."""
    assert GRAFANA == set(SERVICES["grafana"].own)


def test_up_with_wait_would_end() -> None:
    """Conditions can come true: who is waited for is once and for all done, or has a check."""
    for service in order(SERVICES):
        for name, condition in service.conditions.items():
            other = SERVICES[name]
            assert other.is_once == (condition == "service_completed_successfully")
            assert other.is_once or (condition == "service_healthy" and other.health)
        # The image's own check asks an API: what else its programs do has none, or another.
        assert (
            "entrypoint" not in service.raw or "healthcheck" in service.raw or not service.is_ours
        )
    awaited = {name for service in SERVICES.values() for name in service.conditions}

    # Of a service that ends, `--wait` takes the end for a failure unless somebody waits for it.
    assert {name for name, service in SERVICES.items() if service.is_once} <= awaited


def test_kafka_takes_its_variables(up: dict[str, Started]) -> None:
    """The official image's own class makes properties of them that the broker knows and heeds."""
    kafka = up["kafka"]
    resource = ConfigResource(ResourceType.BROKER, "1")
    client = admin(address(kafka))  # a name of its own: the answer does not keep it alive
    asked = client.describe_configs([resource])[resource].result(30)
    given = {
        name.removeprefix("KAFKA_").replace("_", ".").lower(): value
        for name, value in kafka.environment.items()
        if name in kafka.service.own and name not in ("CLUSTER_ID", "KAFKA_HEAP_OPTS")
    }

    assert len(given) > 10
    assert given == {name: asked[name].value for name in given}


def address(kafka: Started) -> str:
    """The broker's address for this machine's own clients."""
    return kafka.environment["KAFKA_ADVERTISED_LISTENERS"].rpartition("//")[2]


def test_topics_can_be_created_twice(up: dict[str, Started]) -> None:
    """The second `up` finds the topic and is content; it is of one partition and bounded."""
    topics = up["topics"]
    again = Started(topics.outside, topics.service)
    name = topics.service.argv[topics.service.argv.index("--topic") + 1]
    resource = ConfigResource(ResourceType.TOPIC, name)
    client = admin(address(up["kafka"]))
    settings = client.describe_configs([resource])[resource].result(30)

    assert 0 == again.done(), again.log()
    again.close()
    assert [0] == list(client.list_topics(name, 30).topics[name].partitions)
    assert "1073741824" == settings["retention.bytes"].value


def test_producer_streams_for_ever(up: dict[str, Started]) -> None:
    """Kaboost learns more events than the file has rows: the producer begins again."""
    kaboost = up["kaboost"]
    url = f"http://127.0.0.1:{kaboost.environment['KABOOST_API__PORT']}"
    until(lambda: httpx.get(f"{url}/model").json()["events_learned"] > 2 * ROWS)
    row = next(producer.rows())[0]
    answer = httpx.post(f"{url}/predict", json={"features": row}).json()

    assert {"DOWN", "UP"} == set(answer["probabilities"])
    assert not answer["model"]["stale"]
    assert up["producer"].process.poll() is None


def test_prometheus_scrapes_with_what_is_mounted(up: dict[str, Started]) -> None:
    """The mounted configuration, addresses apart, finds Kaboost and loads the rules."""
    (listen,) = [word for word in up["prometheus"].argv if "--web.listen-address" in word]
    url = f"http://127.0.0.1:{listen.rpartition(':')[2]}/api/v1"

    def ask(query: str) -> list[Any]:
        answer = httpx.get(f"{url}/query", params={"query": query}).json()
        return list(answer["data"]["result"])

    learned = until(lambda: ask('kaboost_events_learned_total{job="kaboost"} > 0'))
    groups = httpx.get(f"{url}/rules").json()["data"]["groups"]

    assert 1 == len(learned)
    assert ["1"] == [each["value"][1] for each in ask('up{job="kaboost"}')]
    assert {"recording", "alerting"} == {
        rule["type"] for group in groups for rule in group["rules"]
    }


def test_all_end_when_told(up: dict[str, Started]) -> None:
    """`docker compose down` ends each service in time, ours in order."""
    codes = {name: each.stop() for name, each in reversed(up.items())}

    assert 0 == codes["kaboost"], up["kaboost"].log()
    assert 0 == codes["producer"], up["producer"].log()
    assert 0 == codes["prometheus"]
    assert codes["kafka"] in (0, 143)  # how a JVM says that a signal ended it in order
