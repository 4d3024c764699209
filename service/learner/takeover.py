"""Wait for the folders while another learner writes to them, and take them over."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event

from kaboost.service.errors import FolderBusy
from kaboost.service.storage.stores import Stores

POLL_SECONDS = 0.1
REPORT_SECONDS = 1.0
LOG_SECONDS = 30.0

Report = Callable[[str, str], None]  # called with state and reason of this learner

log = logging.getLogger(__name__)


def no_report(state: str, reason: str) -> None:
    """Report to nobody."""


@contextmanager
def lock_folders(
    stores: Stores, timeout: float | None, stop: Event, report: Report
) -> Iterator[bool]:
    """Be the only writer of both stores; yield false if asked to stop before.

    A holder that ends by itself, such as a learner whose supervisor was killed, is waited for: its
    last checkpoint is where this learner begins. After `timeout` seconds FolderBusy is raised.
    """
    began = time.monotonic()
    reported = logged = began - LOG_SECONDS
    with ExitStack() as stack:
        while not stop.is_set():
            try:
                stack.enter_context(stores.lock())
            except FolderBusy as busy:
                now = time.monotonic()
                if timeout is not None and now - began >= timeout:
                    raise
                if now - logged >= LOG_SECONDS:
                    logged = now
                    log.warning("waiting for another learner", extra={"reason": str(busy)})
                if now - reported >= REPORT_SECONDS:
                    reported = now
                    report("waiting", str(busy))
                time.sleep(POLL_SECONDS)
            else:
                if reported >= began:
                    log.info(
                        "folders taken over", extra={"seconds": round(time.monotonic() - began)}
                    )
                report("running", "")
                yield True
                return
        yield False
