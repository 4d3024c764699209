"""The wheel in a fresh environment: one package that includes the demo's data."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("kaboost", "models", "service", "data")
FILES = ("pyproject.toml", "README.md", "LICENSE")
SMALLEST = "task: {kind: binary}\nfeatures: {schema: {age: number}}\n"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
SCRIPT = """
import models
from kaboost import Model

assert models.MINE
model = Model("binary", {"bank": "linear"}, {"x": "number"})
model.learn_one({"x": 1.0}, 1)
assert 0.5 < model.predict_proba_one({"x": 1.0})[1]
"""
NAMES = """
import importlib.util, kaboost
assert None is importlib.util.find_spec("models") is importlib.util.find_spec("service")
print(kaboost.__version__, kaboost.__file__)
"""
DATA = """
from importlib.resources import files
from kaboost.service.demo import producer
assert "Licence" in (files("kaboost.data") / "README.md").read_text()
print(len(list(producer.rows())), producer.ELEC2)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*PIP, "wheel", *offline, "--wheel-dir", folder, source], check=True)
    (built,) = folder.glob("kaboost-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = ["install", "--no-deps", "--no-index", wheel]
    subprocess.run([*PIP, "--python", python, *install], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A folder named in a .pth comes after site-packages, and its own .pth files are not read: the
    # wheel is found before this environment's editable installation.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder with a script, a configuration and a package `models`."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "kaboost.yaml").write_text(SMALLEST)
    return tmp_path


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command that must succeed, without variables of this project; return its output."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=kept | variables, capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout.strip()


def test_wheel_is_one_package(wheel: Path) -> None:
    """It has every source file, the data with its licence note, and no other top-level name."""
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        str(path.relative_to(ROOT)).removeprefix("kaboost/")
        for name in SOURCES
        for path in (ROOT / name).rglob("*.py")
    }
    expected = {f"kaboost/{source}" for source in sources}

    assert {"kaboost"} == {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert expected <= names
    assert {"kaboost/py.typed", "kaboost/data/README.md", "kaboost/data/elec2.csv.gz"} <= names
    assert {f"kaboost/service/lab/web/{name}" for name in ("report.html", "charts.js")} <= names
    assert {f"kaboost/service/http/web/{page}.html" for page in ("index", "docs")} <= names


def test_nothing_else_is_importable(environment: Path, tmp_path: Path) -> None:
    """`kaboost` comes from the wheel; there is no top-level `models` or `service`."""
    version, file = run(environment / "python", "-c", NAMES, cwd=tmp_path).split()

    assert Path(file).is_relative_to(environment.parent)
    assert f"kaboost {version}" == run(environment / "kaboost", "--version", cwd=tmp_path)


def test_user_may_have_a_folder_named_models(environment: Path, folder: Path) -> None:
    """A script imports its own `models` and Kaboost; the commands do not import the user's."""
    run(environment / "python", "script.py", cwd=folder, NUMBA_DISABLE_JIT="1")

    assert "ok" == run(environment / "kaboost", "config", "check", cwd=folder)
    assert "kaboost.yaml" in run(environment / "kaboost", "config", "show", cwd=folder)


def test_demo_runs_elsewhere(environment: Path, folder: Path) -> None:
    """The demo finds its data in the package; broker, learner, API and producer start."""
    rows, file = run(environment / "python", "-c", DATA, cwd=folder).split()
    with subprocess.Popen(
        [environment / "kaboost", "demo"],
        cwd=folder,
        # Plain Python: kernels at another path would all be compiled again.
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        output = []
        for line in demo.stdout:
            output.append(line)
            if "2 of 5" in line:
                break
        demo.send_signal(signal.SIGINT)
        output.append(demo.stdout.read())

    assert Path(file).is_relative_to(environment.parent)
    assert "45312" == rows
    assert any("2 of 5" in line for line in output), "".join(output)
    assert 130 == demo.returncode
