"""The manifests of deploy/kubernetes: rendered by kubectl, held against schemas, product, rules."""

import copy
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest
import typer
import yaml

from kaboost.service import cli
from kaboost.service.config.settings import Settings, load
from kaboost.service.processes.api_server import create_api
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.deploy.restricted import RULES, Pod, broken
from tests.kafka.broker import Reachable
from tests.ports import free_port
from tests.service.serving import running

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
RELEASES = ("1.27", "1.32", "1.37")
REMEDY = (
    "kubectl renders deploy/kubernetes, without a cluster: install it "
    "(Debian: apt-get install kubernetes-client; macOS: brew install kubernetes-cli)"
)
KINDS = ("Namespace", "ConfigMap", "StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy")

Manifest = dict[str, Any]
Manifests = dict[str, Manifest]


@pytest.fixture(scope="session")
def manifests() -> Manifests:
    """What `kubectl apply -k` would send, by kind: there is one of each."""
    if shutil.which("kubectl") is None:
        pytest.fail(REMEDY, pytrace=False)
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, check=True)
    rendered = list(yaml.safe_load_all(done.stdout))
    found = {each["kind"]: each for each in rendered}
    assert len(found) == len(rendered)
    return found


@pytest.fixture
def pod(manifests: Manifests) -> Pod:
    """The spec of the pod, of this test alone."""
    return copy.deepcopy(manifests["StatefulSet"]["spec"]["template"]["spec"])


@pytest.fixture
def settings(manifests: Manifests, tmp_path: Path) -> Settings:
    """The settings of the ConfigMap's file."""
    path = tmp_path / "kaboost.yaml"
    path.write_text(manifests["ConfigMap"]["data"]["kaboost.yaml"])
    return load(path)


def container(pod: Pod, name: str) -> Manifest:
    return next(each for each in pod["containers"] if each["name"] == name)


def ports(pod: Pod) -> dict[str, int]:
    """The ports of all containers by name."""
    return {p["name"]: p["containerPort"] for c in pod["containers"] for p in c["ports"]}


def mounts(container: Manifest) -> dict[str, str]:
    """Where a container sees each volume."""
    return {each["name"]: each["mountPath"] for each in container["volumeMounts"]}


def scratch(pod: Pod) -> list[str]:
    """Where each container sees a scratch folder of its own."""
    folders = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    seen = [{m: p for m, p in mounts(c).items() if m in folders} for c in pod["containers"]]
    assert sorted(folders) == sorted(name for each in seen for name in each)
    return [path for each in seen for path in each.values()]


def probes(container: Manifest) -> dict[str, Manifest]:
    return {name: container[name] for name in container if name.endswith("Probe")}


def ask(command: list[str], folder: Path) -> int:
    """Run a probe's command on a folder that stands for the volume."""
    here = [part.replace("/data", str(folder)) for part in command]
    return subprocess.run(here, stderr=subprocess.DEVNULL, check=False).returncode


def selectors(manifests: Manifests) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """Who selects by which labels, and the labels that must be meant."""
    pods = manifests["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    yield "Service", manifests["Service"]["spec"]["selector"], pods
    for kind in ("StatefulSet", "PodDisruptionBudget"):
        yield kind, manifests[kind]["spec"]["selector"]["matchLabels"], pods
    yield "NetworkPolicy", manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"], pods
    service = manifests["Service"]["metadata"]["labels"]
    yield "ServiceMonitor", manifests["ServiceMonitor"]["spec"]["selector"]["matchLabels"], service


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS)
def test_schemas(manifests: Manifests, kind: str, release: str) -> None:
    """Each object is one that this release of Kubernetes knows, every field of it."""
    assert release == kubernetes_validate.validate(manifests[kind], release, strict=True)


def test_schemas_know_the_rest(manifests: Manifests) -> None:
    """Only the Prometheus operator's object has no schema there."""
    assert {*KINDS, "ServiceMonitor"} == set(manifests)


def test_service_monitor_fields(manifests: Manifests) -> None:
    """The ServiceMonitor has fields that its definition has, and values of their form."""
    monitor = manifests["ServiceMonitor"]
    duration = re.compile(r"(\d+h)?(\d+m)?(\d+s)?(\d+ms)?")

    assert "monitoring.coreos.com/v1" == monitor["apiVersion"]
    assert {"jobLabel", "selector", "endpoints"} == set(monitor["spec"])
    assert {"matchLabels"} == set(monitor["spec"]["selector"])
    for endpoint in monitor["spec"]["endpoints"]:
        assert {"port", "path", "interval", "relabelings"} == set(endpoint)
        assert all(isinstance(endpoint[name], str) for name in ("port", "path"))
        assert duration.fullmatch(endpoint["interval"])
        for rule in endpoint["relabelings"]:
            assert {"sourceLabels", "targetLabel"} == set(rule)
            assert isinstance(rule["sourceLabels"], list)


def test_scrapes_are_one_instance(manifests: Manifests) -> None:
    """Both ports are one job and one instance, which the rules of deploy/prometheus join."""
    monitor, service = manifests["ServiceMonitor"]["spec"], manifests["Service"]
    named = {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"}

    assert [[named], [named]] == [each["relabelings"] for each in monitor["endpoints"]]
    assert "kaboost" == service["metadata"]["labels"][monitor["jobLabel"]]


def test_kustomization_names_every_file() -> None:
    """No manifest lies beside the others without being applied."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    named = ["kustomization.yaml", *kustomization["resources"], *generated["files"]]

    assert sorted(named) == sorted(path.name for path in FOLDER.iterdir())


def test_selectors_match(manifests: Manifests) -> None:
    """Whoever selects by labels finds what has them, in the same namespace."""
    namespace = manifests["Namespace"]["metadata"]["name"]
    inside = {kind: each for kind, each in manifests.items() if kind != "Namespace"}

    assert {namespace} == {each["metadata"]["namespace"] for each in inside.values()}
    for kind, wanted, labels in selectors(manifests):
        assert wanted, kind
        assert wanted.items() <= labels.items(), kind


def test_names_are_found(manifests: Manifests, pod: Pod) -> None:
    """A port, volume, service or label that is named somewhere is there."""
    service, policy = manifests["Service"], manifests["NetworkPolicy"]["spec"]
    monitor = manifests["ServiceMonitor"]["spec"]
    claims = manifests["StatefulSet"]["spec"]["volumeClaimTemplates"]
    volumes = {each["name"] for each in [*pod["volumes"], *(c["metadata"] for c in claims)]}
    admitted = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    config_map = next(v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v)

    assert manifests["StatefulSet"]["spec"]["serviceName"] == service["metadata"]["name"]
    assert manifests["ConfigMap"]["metadata"]["name"] == config_map
    assert set(ports(pod)) == {port["targetPort"] for port in service["spec"]["ports"]}
    assert {port["name"] for port in service["spec"]["ports"]} == {
        endpoint["port"] for endpoint in monitor["endpoints"]
    }
    assert set(ports(pod)) == admitted
    assert volumes == {name for each in pod["containers"] for name in mounts(each)}


def test_configuration(manifests: Manifests, pod: Pod, settings: Settings) -> None:
    """The file of the ConfigMap is one of ours and agrees with ports, volume and network."""
    _, _, broker = settings.kafka.bootstrap_servers.rpartition(":")
    egress = [
        port["port"] for r in manifests["NetworkPolicy"]["spec"]["egress"] for port in r["ports"]
    ]
    for name in ("learner", "api"):
        data = Path(mounts(container(pod, name))["data"])

        assert settings.snapshots.directory.parent == data
        assert settings.checkpoints.directory.parent == data
    assert {"http": settings.api.port, "metrics": settings.metrics.port} == ports(pod)
    assert "0.0.0.0" == settings.api.host == settings.metrics.host
    assert [53, 53, int(broker)] == egress


@pytest.mark.parametrize("name", ["learner", "api"])
def test_commands(manifests: Manifests, pod: Pod, name: str) -> None:
    """Each container runs a command of ours on the mounted file; a refusal ends in exit code 2."""
    command, option, path = container(pod, name)["args"]
    (file,) = manifests["ConfigMap"]["data"]
    known: Any = typer.main.get_command(cli.app)
    options = {each for parameter in known.commands[command].params for each in parameter.opts}

    assert option in options
    assert f"{mounts(container(pod, name))['config']}/{file}" == path
    assert "command" not in container(pod, name)  # the image's own entry point


def test_image(pod: Pod) -> None:
    """Both containers run the image of `make image`, as its user, and write where it does."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    entry = (ROOT / "deploy" / "image" / "entrypoint.sh").read_text().splitlines()
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    (cache,) = re.findall(r"NUMBA_CACHE_DIR=(/tmp/\S+)$", "\n".join(lines), re.M)

    assert {"kaboost:latest"} == {each["image"] for each in pod["containers"]}
    assert f"USER {user}" == [line for line in lines if line.startswith("USER")][-1]
    assert 'ENTRYPOINT ["sh", "/opt/kaboost/image/entrypoint.sh"]' in lines
    assert 'exec kaboost "$@"' == entry[-1]
    assert all(Path(cache).parent == Path(place) for place in scratch(pod))


def test_restricted(manifests: Manifests, pod: Pod) -> None:
    """The pod breaks no rule of the restricted profile, and its namespace starts no other."""
    labels = manifests["Namespace"]["metadata"]["labels"]

    assert set() == broken(pod)
    assert "restricted" == labels["pod-security.kubernetes.io/enforce"]
    assert not pod["automountServiceAccountToken"]
    for each in pod["containers"]:
        assert each["securityContext"]["readOnlyRootFilesystem"]


Breaking = Callable[[Pod, dict[str, Any]], object]
BREAKINGS: dict[str, Breaking] = {
    "Host namespaces": lambda pod, _: pod.update(hostPID=True),
    "Host ports": lambda pod, first: first["ports"][0].update(hostPort=80),
    "Host probes": lambda pod, first: first.update(startupProbe={"tcpSocket": {"host": "x"}}),
    "HostProcess": lambda pod, _: pod["securityContext"].update(
        windowsOptions={"hostProcess": True}
    ),
    "Privileged containers": lambda pod, first: first["securityContext"].update(privileged=True),
    "Privilege escalation": lambda pod, first: first["securityContext"].pop(
        "allowPrivilegeEscalation"
    ),
    "Capabilities dropped": lambda pod, first: first["securityContext"].pop("capabilities"),
    "Capabilities added": lambda pod, first: first["securityContext"]["capabilities"].update(
        add=["NET_ADMIN"]
    ),
    "Running as non-root": lambda pod, _: pod["securityContext"].pop("runAsNonRoot"),
    "Running as non-root user": lambda pod, _: pod["securityContext"].update(runAsUser=0),
    "Seccomp": lambda pod, _: pod["securityContext"].pop("seccompProfile"),
    "AppArmor": lambda pod, _: pod["securityContext"].update(
        appArmorProfile={"type": "Unconfined"}
    ),
    "SELinux": lambda pod, first: first["securityContext"].update(seLinuxOptions={"type": "x"}),
    "/proc mount type": lambda pod, first: first["securityContext"].update(procMount="Unmasked"),
    "Sysctls": lambda pod, _: pod["securityContext"].update(sysctls=[{"name": "kernel.msgmax"}]),
    "Volume types": lambda pod, _: pod["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_can_break(pod: Pod, rule: str) -> None:
    """A pod that breaks one rule is found by that rule and by no other."""
    BREAKINGS[rule](pod, pod["containers"][0])

    assert {rule} == broken(pod)


def test_writable_places(pod: Pod) -> None:
    """Only the learner writes to the volume; besides it there is /tmp, and the rest is read."""
    writable = {
        each["name"]: {m["mountPath"] for m in each["volumeMounts"] if not m.get("readOnly")}
        for each in pod["containers"]
    }

    assert {"learner": {"/data", "/tmp"}, "api": {"/tmp"}} == writable


def test_resources(pod: Pod) -> None:
    """Each container asks for what it needs, and cannot take the node's memory."""
    for each in pod["containers"]:
        assert {"cpu", "memory"} == set(each["resources"]["requests"])
        assert "memory" in each["resources"]["limits"]


def test_probes_are_routes(pod: Pod, settings: Settings) -> None:
    """What the kubelet asks for is there, on the port that serves it."""
    paths = {getattr(route, "path", "") for route in create_api(settings).routes}
    asked = {name: each["httpGet"] for name, each in probes(container(pod, "api")).items()}

    assert {"startupProbe", "livenessProbe", "readinessProbe"} == set(asked)
    assert {"http"} == {each["port"] for each in asked.values()}
    assert {each["path"] for each in asked.values()} <= paths
    assert "/healthz/ready" == asked["readinessProbe"]["path"]


@pytest.mark.parametrize(("age", "code"), [(None, 1), (0, 0), (30, 0), (120, 1)])
def test_beats(pod: Pod, tmp_path: Path, age: int | None, code: int) -> None:
    """The learner's probes pass while its sign of life is no older than a minute."""
    if age is not None:
        FolderSnapshotStore(tmp_path / "snapshots").heartbeat()
        then = (tmp_path / "snapshots" / ".learner").stat().st_mtime - age
        os.utime(tmp_path / "snapshots" / ".learner", (then, then))
    asked = [each["exec"]["command"] for each in probes(container(pod, "learner")).values()]

    assert 2 == len(asked)
    for command in asked:
        assert code == ask(command, tmp_path)


def moved(text: str, folder: Path, **kafka: str) -> Settings:
    """Let the ConfigMap's file use a folder, ports and a broker of this machine."""
    tree = yaml.safe_load(text.replace("/data", str(folder)))
    tree["kafka"] |= kafka
    tree["api"]["port"], tree["metrics"]["port"] = free_port(), free_port()
    (folder / "kaboost.yaml").write_text(yaml.safe_dump(tree))
    return load(folder / "kaboost.yaml")


def test_pod_runs(
    manifests: Manifests, pod: Pod, broker: Reachable, topic: str, tmp_path: Path
) -> None:
    """Both commands run on the mounted file; probes pass, callers and Prometheus are answered."""
    text = manifests["ConfigMap"]["data"]["kaboost.yaml"]
    settings = moved(
        text, tmp_path, bootstrap_servers=broker.bootstrap, topic=topic, group_id=topic
    )
    ports = {"http": settings.api.port, "metrics": settings.metrics.port}
    row = {"amount": 31.5, "country": "PT", "first_order": True}

    with running("learner", settings) as learner, running("api", settings) as api:
        api.ready()

        for probe in probes(container(pod, "learner")).values():
            assert 0 == ask(probe["exec"]["command"], tmp_path)
        for probe in probes(container(pod, "api")).values():
            assert 200 == api.client.get(probe["httpGet"]["path"]).status_code
        for endpoint in manifests["ServiceMonitor"]["spec"]["endpoints"]:
            url = f"http://127.0.0.1:{ports[endpoint['port']]}{endpoint['path']}"
            assert "# TYPE" in httpx.get(url).text
        assert api.predict(row)["prediction"] in ("legitimate", "fraud")
        assert [0, 0] == [each.end(signal.SIGTERM) for each in (learner, api)]


def test_patience(pod: Pod) -> None:
    """A start with no kernels in the cache, and an end with work in flight, have their time."""
    for each in pod["containers"]:
        start = each["startupProbe"]
        assert start["periodSeconds"] * start["failureThreshold"] >= 60
    assert pod["terminationGracePeriodSeconds"] >= 60


def test_secret_as_mounted(
    pod: Pod, manifests: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password comes from the secret as the kubelet mounts it: names that point to names."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "kafka__extra__sasl_password").write_text("hidden")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "kafka__extra__sasl_password").symlink_to("..data/kafka__extra__sasl_password")
    learner = container(pod, "learner")
    (variable,) = learner["env"]
    monkeypatch.setenv(variable["name"], str(tmp_path))

    assert mounts(learner)["secrets"] == variable["value"]
    assert "hidden" == load(FOLDER / "kaboost.yaml").kafka.client()["sasl.password"]
