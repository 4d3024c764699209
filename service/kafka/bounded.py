"""Calls of a Kafka client that may never return, made in a thread that is given up then."""

import threading
from collections.abc import Callable

from confluent_kafka import KafkaException


class Stuck(Exception):
    """A call has not returned within its time, and probably never will."""


def call_bounded(call: Callable[[], object], seconds: float) -> None:
    """Call and wait at most so long; raise the KafkaException of the call, or Stuck.

    The client is of librdkafka: where its broker is killed between two requests of a transaction,
    a call may ignore its timeout and wait for ever. The thread, and the client, are left behind.
    """
    failures: list[KafkaException] = []
    returned, done = threading.Event(), threading.Event()

    def run() -> None:
        try:
            call()
            returned.set()
        except KafkaException as err:
            failures.append(err)
        finally:
            done.set()

    # A daemon: what is stuck must not keep the process from ending.
    threading.Thread(target=run, name="bounded call", daemon=True).start()
    if not done.wait(seconds):
        raise Stuck(f"the client has not returned for {seconds:g} s")
    if failures:
        raise failures[0]
    assert returned.is_set(), "the thread has printed what went wrong"
