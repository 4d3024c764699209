"""Guard what is only shown: a fault there must neither stop learning nor reject an event."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kaboost.service.errors import KaboostError

log = logging.getLogger(__name__)
_LOGGED: set[str] = set()  # what has failed, each once for a process


@contextmanager
def harmless(what: str) -> Iterator[None]:
    """Log the first fault of its kind, and go on; errors such as a full disk pass."""
    try:
        yield
    except KaboostError:
        raise
    except Exception:  # boundary: what is shown is no part of learning
        if what not in _LOGGED:
            _LOGGED.add(what)
            log.exception("not shown on the page", extra={"what": what})
