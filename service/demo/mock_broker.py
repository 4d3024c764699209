"""librdkafka's mock cluster in its own process: a broker for the demo, without Java.

It keeps the newest 5 MiB of a partition, creates a topic with four partitions when a client asks
for one, has neither transactions nor compaction, and stores nothing on disk. It is not Kafka.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer

from kaboost.service.errors import BrokerError

WITH_PARENT = "--with-parent"  # also end at the end of standard input


@contextmanager
def running(environment: Mapping[str, str]) -> Iterator[str]:
    """Run a mock cluster as a child process and yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kaboost.service.demo.mock_broker", WITH_PARENT],
        stdin=subprocess.PIPE,  # closes when this process ends: the child then ends too
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C must not end it before its clients
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise BrokerError(f"the mock cluster did not start: exit code {process.wait()}")
        yield address
        process.terminate()


def host_cluster(*, with_parent: bool) -> None:
    """Host the cluster and print its address; stop at SIGINT, SIGTERM or the end of the parent."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1", "log_level": 2})
    broker = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    if with_parent:
        sys.stdin.read()
        return
    while True:
        time.sleep(1)  # short: a signal that arrives just before a sleep is handled after it


if __name__ == "__main__":
    host_cluster(with_parent=WITH_PARENT in sys.argv[1:])
