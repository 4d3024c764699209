"""A broker that is killed, stopped, frozen, and one that is reached through a bad network."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.kafka.broker import Broker
from tests.kafka.client import limit_record_size
from tests.kafka.toxiproxy import Toxiproxy
from tests.ports import free_port
from tests.service.learning import until

REFUSED = "dead letters cannot be written, they are tried again"
PROGRESS = 200  # records that are learned while nothing is wrong


@contextmanager
def own_broker(proxy: int | None = None) -> Iterator[Broker]:
    """Start a broker that a scenario may harm."""
    broker = Broker(proxy=proxy)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@scenario(rounds=3, long=60)
def broker_killed(run: Run) -> None:
    """kill -9 of the broker and a new start, while dead letters are on their way."""
    with own_broker() as broker:
        service = Service(run, bootstrap=broker.bootstrap)
        with service.under_load():
            for _ in range(run.rounds):
                pause(run, 0.0, 1.0)
                broker.kill()
                pause(run, 0.0, 2.0)
                broker.start()
                service.progress(PROGRESS)


@scenario(rounds=2, long=60)
def broker_restarted(run: Run) -> None:
    """An orderly stop of the broker and a new start."""
    with own_broker() as broker:
        service = Service(run, bootstrap=broker.bootstrap)
        with service.under_load():
            for _ in range(run.rounds):
                pause(run, 0.0, 1.0)
                broker.stop()
                broker.start()
                service.progress(PROGRESS)


@scenario(rounds=3, long=60)
def broker_frozen(run: Run) -> None:
    """SIGSTOP of the broker for seconds; in some rounds the learner is killed meanwhile."""
    with own_broker() as broker:
        service = Service(run, bootstrap=broker.bootstrap)
        with service.under_load():
            for k in range(run.rounds):
                # Records that are read by now leave dead letters, which the broker does not take.
                os.kill(broker.pid, signal.SIGSTOP)
                try:
                    pause(run, 0.5, 4.0)
                    if k % 3 == 1:
                        service.kill("learner")
                        time.sleep(1.0)
                finally:
                    os.kill(broker.pid, signal.SIGCONT)
                service.progress(PROGRESS)


@scenario(rounds=2, long=60)
def dead_letters_refused(run: Run) -> None:
    """The dead-letter topic takes no record for seconds, and the learner is killed meanwhile."""
    service = Service(run)
    letters = f"{service.topic}.dlq"
    with service.under_load():
        for _ in range(run.rounds):
            limit_record_size(service.direct, letters, 150)
            before = len(service.program.events(REFUSED))
            until(lambda n=before: len(service.program.events(REFUSED)) > n)
            pause(run, 0.0, 2.0)
            service.kill("learner")
            service.check_order()
            limit_record_size(service.direct, letters, 1_000_000)
            service.progress(PROGRESS)


def _with_faults(run: Run, kind: str, low: float, high: float, **attributes: int) -> None:
    """Serve through a proxy with one fault in both directions, again and again."""
    port = free_port()
    with own_broker(proxy=port) as broker:
        proxy = Toxiproxy(broker.proxied_port, port)
        try:
            through = f"127.0.0.1:{port}"
            service = Service(run, bootstrap=through, direct=broker.bootstrap)
            with service.under_load():
                for _ in range(run.rounds):
                    for stream in ("upstream", "downstream"):
                        proxy.add(kind, stream, **attributes)
                    pause(run, low, high)
                    proxy.heal()
                    service.progress(PROGRESS)
        finally:
            proxy.close()


@scenario(rounds=2, long=40)
def network_slow(run: Run) -> None:
    """Every packet to and from the broker takes 150 to 450 ms, for seconds."""
    _with_faults(run, "latency", 2.0, 5.0, latency=300, jitter=150)


@scenario(rounds=2, long=40)
def network_half_open(run: Run) -> None:
    """Connections to the broker stay open and nothing arrives any more, for seconds."""
    _with_faults(run, "timeout", 2.0, 8.0, timeout=0)


@scenario(rounds=3, long=60)
def network_reset(run: Run) -> None:
    """Connections to the broker are reset, old and new ones, for a second."""
    _with_faults(run, "reset_peer", 0.5, 2.0, timeout=0)


@scenario(rounds=3, long=60)
def network_cut(run: Run) -> None:
    """Connections to the broker are closed and refused; in some rounds the learner is killed."""
    port = free_port()
    with own_broker(proxy=port) as broker:
        proxy = Toxiproxy(broker.proxied_port, port)
        try:
            through = f"127.0.0.1:{port}"
            service = Service(run, bootstrap=through, direct=broker.bootstrap)
            with service.under_load():
                for k in range(run.rounds):
                    proxy.cut()
                    pause(run, 0.5, 4.0)
                    if k % 3 == 1:
                        service.kill("learner")
                    proxy.heal()
                    service.progress(PROGRESS)
        finally:
            proxy.close()
