"""Ports for what tests start: never one that the system hands to an outgoing connection meanwhile.

A port found by binding to 0 is free at that moment only: until the started process binds it, any
connection of this machine may be given it. These lie below the range of outgoing connections, and
a counter that all test processes of this machine share never gives one twice in a row.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import tempfile
from pathlib import Path

FIRST, COUNT = 12_000, 18_000


def free_port() -> int:
    """Give a port of 127.0.0.1 that nobody listens on and no other test was given lately."""
    while True:
        port = FIRST + _next() % COUNT
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port


def _next() -> int:
    path = Path(tempfile.gettempdir()) / f"kaboost-test-ports-{os.getuid()}"
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or secrets.randbelow(COUNT)) + 1
        file.truncate(0)
        file.write(str(number))
    return number
