"""The manifests of deploy/kubernetes-readers: rendered, held against schemas, product and rules."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml

from kaboost.service import cli
from kaboost.service.config.settings import load
from kaboost.service.processes.api_server import create_api
from tests.deploy.restricted import broken

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes-readers"
LEARNER = ROOT / "deploy" / "kubernetes"
RELEASES = ("1.27", "1.32", "1.37")
REMEDY = "kubectl renders the manifests: install it (Debian: apt-get install kubernetes-client)"
NAME = "app.kubernetes.io/name"
RECOMMENDED = ("name", "instance", "version", "component", "part-of", "managed-by")
KINDS = (
    "ConfigMap",
    "Deployment",
    "Service",
    "HorizontalPodAutoscaler",
    "PodDisruptionBudget",
    "NetworkPolicy",
)

Manifests = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def manifests() -> Manifests:
    """What `kubectl apply -k` would send, by kind: there is one of each."""
    if shutil.which("kubectl") is None:
        pytest.fail(REMEDY, pytrace=False)
    done = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, check=True)
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}


@pytest.fixture
def pod(manifests: Manifests) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("release", RELEASES)
def test_schemas(manifests: Manifests, release: str) -> None:
    """Each object is one that this release of Kubernetes knows, every field of it."""
    assert set(KINDS) == set(manifests)
    for manifest in manifests.values():
        assert release == kubernetes_validate.validate(manifest, release, strict=True)


def test_kustomization_names_every_file() -> None:
    """No manifest lies in the folder without being applied."""
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (generated,) = kustomization["configMapGenerator"]
    named = ["kustomization.yaml", *kustomization["resources"], *generated["files"]]

    assert sorted(named) == sorted(path.name for path in FOLDER.iterdir())


def test_selectors_match_readers_alone(manifests: Manifests) -> None:
    """All select the readers by a label that the learner's pod has not, and its Service neither."""
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        manifests["Service"]["spec"]["selector"],
        manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(
            manifests[kind]["spec"]["selector"]["matchLabels"]
            for kind in ("Deployment", "PodDisruptionBudget")
        ),
    ]
    (learner,) = {
        yaml.safe_load((LEARNER / f"{name}.yaml").read_text())["metadata"]["labels"][NAME]
        for name in ("service", "statefulset", "networkpolicy", "poddisruptionbudget")
    }

    assert all(each == {NAME: labels[NAME]} for each in selectors)
    assert learner != labels[NAME]
    for manifest in [*manifests.values(), manifests["Deployment"]["spec"]["template"]]:
        found = manifest["metadata"]["labels"]
        if manifest.get("kind") != "ConfigMap":
            assert {f"app.kubernetes.io/{each}" for each in RECOMMENDED} <= set(found)


def test_names_are_found(manifests: Manifests, pod: dict[str, Any]) -> None:
    """The autoscaler's target, ports, volumes and configuration are there."""
    target = manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    (container,) = pod["containers"]
    volumes = {each["name"] for each in pod["volumes"]}
    config_map = next(v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v)
    (port,) = container["ports"]

    assert manifests["Deployment"]["metadata"]["name"] == target["name"]
    assert "replicas" not in manifests["Deployment"]["spec"]
    assert volumes == {each["name"] for each in container["volumeMounts"]}
    assert manifests["ConfigMap"]["metadata"]["name"] == config_map
    assert {port["name"]} == {each["targetPort"] for each in manifests["Service"]["spec"]["ports"]}


def test_command(manifests: Manifests, pod: dict[str, Any], tmp_path: Path) -> None:
    """The container runs a command of ours on the mounted file, and its source is one."""
    (container,) = pod["containers"]
    command, config, file, source, place = container["args"]
    known: Any = typer.main.get_command(cli.app)
    options = {each for parameter in known.commands[command].params for each in parameter.opts}
    (text,) = manifests["ConfigMap"]["data"].values()
    (tmp_path / "kaboost.yaml").write_text(text)
    settings = load(tmp_path / "kaboost.yaml", {"snapshots.source": place})
    paths = {getattr(route, "path", "") for route in create_api(settings).routes}
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]

    assert {config, source} <= options
    assert "/etc/kaboost/kaboost.yaml" == file
    assert settings.snapshots.is_remote
    assert settings.api.port == container["ports"][0]["containerPort"]
    assert {each["path"] for each in probes} <= paths
    learner = load(LEARNER / "kaboost.yaml")
    assert learner.features == settings.features
    assert learner.task == settings.task


def test_restricted_and_patient(pod: dict[str, Any]) -> None:
    """The pod breaks no rule of the restricted profile, and has time for preStop and drain."""
    (container,) = pod["containers"]
    _, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    settings = load(FOLDER / "kaboost.yaml")
    end = int(seconds) + settings.api.drain_seconds + settings.api.timeout_seconds

    assert set() == broken(pod)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not pod["automountServiceAccountToken"]
    assert pod["terminationGracePeriodSeconds"] > end + 5
    assert settings.api.drain_seconds > container["readinessProbe"]["periodSeconds"]
