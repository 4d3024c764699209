"""Calls of a Kafka client that may never return, made in a thread that is given up then."""

import threading
from collections.abc import Callable


class Stuck(Exception):
    """A call has not returned within its time, and probably never will."""


def call_bounded(call: Callable[[], object], seconds: float) -> None:
    """Call and wait at most so long; raise what the call raises, or Stuck.

    The client is of librdkafka: where its broker is killed between two requests of a transaction,
    a call may ignore its timeout and wait for ever. The thread, and the client, are left behind.
    """
    failures: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            call()
        except BaseException as err:  # boundary: the caller's thread raises it
            failures.append(err)
        finally:
            done.set()

    # A daemon: what is stuck must not keep the process from ending.
    threading.Thread(target=run, name="bounded call", daemon=True).start()
    if not done.wait(seconds):
        raise Stuck(f"the client has not returned for {seconds:g} s")
    if failures:
        raise failures[0]
