"""Every rule and every bank in the live service: chosen in the configuration, learning from the
topic, killed with -9, and bit for bit what an uninterrupted run is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np

from kaboost.models.model import Model
from kaboost.service.events.json import JsonDecoder
from kaboost.service.storage.checkpoints import FolderCheckpointStore
from kaboost.service.storage.snapshots import FolderSnapshotStore
from tests.contracts import subjects
from tests.kafka.client import encode
from tests.service.learning import saved, settings_for, until

TREES = {"kind": "reboosted_trees"}
CONV = {"kind": "conv", "n": 2, "lr": 0.05}
ROOT = Path(__file__).parents[2]
TASKS = {"softmax": "multiclass", **dict.fromkeys(subjects.MARGIN, "binary")}
EVENTS = 700  # more than the 500 labels by which Online Gradient Boosting maps them


def systems():
    """Every rule with a plain bank, every bank with a rule that takes it, and one per class."""
    seen = {}
    for rule, bank, loss, m in subjects.partners():
        spec = {"rule": rule, "bank": bank, "loss": loss, "seed": 7}
        name = f"{rule['kind']}-{bank['kind']}"
        if m == 1 and loss["kind"] in ("squared", "logistic", "exponential"):
            seen.setdefault(name, (TASKS.get(loss["kind"], "regression"), spec))
    many = {"rule": "bbm", "bank": subjects.BANKS[0], "multiclass": "one_vs_rest", "seed": 7}
    image = {"rule": {"kind": "sgb"}, "bank": CONV, "loss": {"kind": "logistic"}, "seed": 7}
    systems = {**seen, "one_vs_rest": ("multiclass", many), "sgb-conv": ("binary", image)}
    for task, loss in (("binary", "logistic"), ("regression", "squared")):
        trees = {"rule": {"kind": "sgb"}, "bank": TREES, "loss": {"kind": loss}, "seed": 7}
        systems[f"reboosted_trees-{task}"] = (task, trees)
    systems["reboosted_trees-auto"] = ("binary", systems["reboosted_trees-binary"][1])
    return systems


SYSTEMS = systems()
COMPILED = {"sgb-linear", "sgb-conv"} | {name for name in SYSTEMS if name.startswith("reboosted")}
PLAIN = set(SYSTEMS) - COMPILED
LATE = 520  # of the events of an inferred schema the first that brings some of the features


def schema_of(name, spec):
    if name.endswith("-auto"):
        return "auto"
    width = 784 if spec["bank"] == CONV else subjects.FEATURES
    return {f"x{j}": "number" for j in range(width)}


def events_of(task, schema):
    r = np.random.default_rng(3)
    if schema == "auto":
        for k in range(EVENTS):
            x = {"a": round(r.normal(), 3), "colour": "rgb"[r.integers(3)], "seldom": None}
            x |= {f"late{j}": bool(r.integers(2)) for j in range(9 * (k >= LATE))}
            yield x, int(x["a"] + x.get("late3", 0) > 0.5)
        return
    for _ in range(EVENTS):
        x = r.normal(size=len(schema)).round(3)
        z = float(x[0] - 0.5 * x[1] + 0.1 * r.normal())
        label = {"regression": z, "binary": int(z > 0), "multiclass": int(np.digitize(z, (-1, 1)))}
        yield dict(zip(schema, x.tolist(), strict=True)), label[task]


def start(settings):
    """Run `kaboost learner` as users do."""
    path = settings.snapshots.directory.parent / "kaboost.json"
    with path.with_name("learner.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "kaboost.service.cli", "learner", "--config", str(path)],
            cwd=path.parent, env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
            stderr=log,
        )  # fmt: skip


def learned(process, settings, offset=None):
    """Whether a checkpoint is there (of that offset); a learner that ended tells why."""
    log = settings.snapshots.directory.parent / "learner.log"
    assert process.poll() is None, log.read_text()
    return saved(settings) if offset is None else saved(settings) == {0: offset}


def alone(settings, values):
    """The same events learned in this process, in one batch."""
    task, schema = settings.task, settings.features.columns
    model = Model(task.kind, settings.model, schema, task.labels)
    decoder = JsonDecoder(model.encoder.schema, model.labels)
    while values:
        decoded = decoder.decode(values)
        model.learn(decoded.table, decoded.y, decoded.w)
        if decoded.new_features:
            model.add_features(decoded.new_features)
            decoder.add_features(decoded.new_features)
        values = values[decoded.consumed :]
    return model, decoded.table


def gauges(settings, name):
    """The values of one metric on the learner's port; none while it starts."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{settings.metrics.port}/metrics") as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return []
    return [float(line.split()[-1]) for line in lines if line.startswith(name + "{")]


def lives_through(name, topic, broker, send, tmp_path):
    """It learns, is killed in the middle, goes on, and serves what it learned."""
    task, spec = SYSTEMS[name]
    schema = schema_of(name, spec)
    settings = settings_for(
        broker.bootstrap, tmp_path, topic, features={"schema": schema}, model=spec,
        task={"kind": task, **({"labels": [0, 1, 2]} if task == "multiclass" else {})},
        checkpoints={"every_seconds": 0.05},
    )  # fmt: skip
    values = [encode(*event) for event in events_of(task, schema)]
    first = start(settings)
    send(topic, values[:350])
    until(lambda: learned(first, settings))
    send(topic, values[350:])
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = start(settings)
    try:
        until(lambda: learned(second, settings, EVENTS))
        until(lambda: FolderSnapshotStore(settings.snapshots.directory).newest())
        prefixes = until(lambda: gauges(settings, "kaboost_prefix_loss"))
        edges = gauges(settings, "kaboost_weak_learner_edge")
    finally:
        second.terminate()
        code = second.wait()
    model, table = alone(settings, values)
    served = FolderSnapshotStore(settings.snapshots.directory).newest()

    assert code == 0
    assert served.model.describe() == model.describe()
    assert np.isfinite(prefixes).all()
    if spec["bank"] == TREES:  # of each structure at most 32, spread evenly over those there are
        assert 32 < len(edges) <= len(prefixes) <= 32 * len(model.booster.progress.edges)
    else:
        assert len(prefixes) == len(edges) + 1 == spec["bank"]["n"] + 1
        np.testing.assert_array_equal(prefixes, model.booster.progress.prefix_losses)
    expect_same(settings, model)
    np.testing.assert_array_equal(served.model.predict(table), model.predict(table))


def expect_same(settings, model):
    """The newest checkpoint has the very bytes of the model's arrays."""
    restored, _ = FolderCheckpointStore(settings.checkpoints.directory).restore()
    left, right = restored.state.model.to_arrays(), model.to_arrays()
    assert left.keys() == right.keys()
    for array in left:
        assert left[array].tobytes() == right[array].tobytes(), array
