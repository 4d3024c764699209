"""Schemathesis makes requests from the OpenAPI document: valid ones and others, to a real process.

No server error, and status, media type, headers and body of each answer as the document has them.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaboost.service.config.settings import Settings
from tests.kafka.broker import Reachable
from tests.kafka.client import create_topic
from tests.service.serving import Program, publish, taught

CONFIG = Path(__file__).with_name("schemathesis.toml")
Start = Callable[..., tuple[Settings, Program]]


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize(("examples", "unknown"), [(5, "refuse"), (300, "refuse"), (300, "ignore")])
def test_answers_are_those_of_the_document(
    serve: Start, topic: str, broker: Reachable, task: str, examples: int, unknown: str
) -> None:
    """For every operation but the stream, which does not end; the same requests in each run."""
    labels = create_topic(broker.bootstrap)
    kafka: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "topic": topic}
    later = {"topic": labels, "wait": "1h"}
    features = {"schema": {"age": "number", "vip": "boolean", "country": "category"}}
    wanted, program = serve(
        task={"kind": task}, kafka=kafka, labels=later, features=features | {"unknown": unknown}
    )
    publish(wanted, taught(wanted))
    program.ready()
    command = Path(sys.executable).with_name("schemathesis")
    url = f"http://127.0.0.1:{program.port}/openapi.json"
    options = ["--max-examples", str(examples), "--exclude-path", "/stream", "--seed", "1"]
    options += ["--phases", "examples,coverage,fuzzing", "--no-color"]
    result = subprocess.run(
        [command, "--config-file", CONFIG, "run", url, *options],
        capture_output=True, text=True, cwd=program.folder,
    )  # fmt: skip

    assert 0 == result.returncode, result.stdout[-5_000:] + result.stderr[-1_000:]
    assert [] == program.events("request failed")
