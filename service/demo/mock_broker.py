"""librdkafka's mock cluster in a process of its own: a broker for the demo, without Java.

It keeps the newest 5 MiB of a partition, makes a topic of four partitions when one is asked for,
knows no transactions and no compaction, and forgets everything at its end. It is not Kafka.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer

from kaboost.service.errors import BrokerError

TIED = "--tied"  # end with standard input as well


@contextmanager
def running(environment: Mapping[str, str]) -> Iterator[str]:
    """Run a mock cluster beside this process; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kaboost.service.demo.mock_broker", TIED],
        stdin=subprocess.PIPE,  # the lifeline: closed when this process is gone
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,  # Ctrl-C must not take it before its clients
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise BrokerError(f"the mock cluster did not start: exit code {process.wait()}")
        yield address
        process.terminate()


def host(*, tied: bool) -> None:
    """Host the cluster, say its address, and stay until SIGINT, SIGTERM or, tied, end of input."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock:1", "log_level": 2})
    broker = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    print(f"{broker.host}:{broker.port}", flush=True)
    if tied:
        sys.stdin.read()
        return
    while True:
        time.sleep(1)  # not for ever: a signal just before a sleep is only heard after it


if __name__ == "__main__":
    host(tied=TIED in sys.argv[1:])
