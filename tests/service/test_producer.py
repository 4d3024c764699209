"""The producer as a real process: its rate, its end, and a file that is read again."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kafka.broker import Reachable
from tests.kafka.client import PATIENCE, create_topic, read
from tests.service.serving import ROOT

ROWS = 5


@pytest.fixture
def topic(broker: Reachable) -> str:
    """An empty topic of one partition."""
    return create_topic(broker.bootstrap)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of a few rows."""
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + "".join(f"{row},L\n" for row in range(ROWS)))
    return path


@contextmanager
def streaming(*words: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run the producer; nothing of it is left afterwards."""
    command = [sys.executable, "-m", "kaboost.service.demo.producer", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def held(bootstrap: str, topic: str) -> int:
    """Count the records of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "log_level": 0})
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE)
    consumer.close()
    return int(high)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_forever_begins_anew_until_told(
    broker: Reachable, topic: str, file: Path, number: int, code: int
) -> None:
    """Rows come round, ids go on; told to end it waits for what it sent, and says how much."""
    where = ["--bootstrap-servers", broker.bootstrap, "--topic", topic, "--file", file]
    with streaming(*where, "--rate", "500", "--forever") as process:
        read(broker.bootstrap, topic, 3 * ROWS)
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE)
    written = int(output.removesuffix(" events written\n"))
    records = read(broker.bootstrap, topic, written)
    events = [json.loads(record.value() or b"") for record in records]

    assert code == process.returncode
    assert 3 * ROWS <= written == held(broker.bootstrap, topic)
    assert [str(count) for count in range(written)] == [each["id"] for each in events]
    assert {each["features"]["a"] == int(each["id"]) % ROWS for each in events} == {True}


def test_once_is_to_the_last_row(broker: Reachable, topic: str, file: Path) -> None:
    """Without `--forever` the file is streamed once, at its pace."""
    started = time.monotonic()
    where = ["--bootstrap-servers", broker.bootstrap, "--topic", topic, "--file", file]
    with streaming(*where, "--rate", "5") as process:
        output, _ = process.communicate(timeout=PATIENCE)

    assert (0, f"{ROWS} events written\n") == (process.returncode, output)
    assert time.monotonic() - started > 0.9
    assert ROWS == held(broker.bootstrap, topic)


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "fast"])
def test_a_rate_is_above_zero(rate: str) -> None:
    """Another would never send an event: it is refused as a fault of the command line."""
    with streaming("--rate", rate) as process:
        _, complaint = process.communicate(timeout=PATIENCE)

    assert 2 == process.returncode
    assert re.search(rf"--rate.*{rate}", complaint)
