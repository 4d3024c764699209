"""Serve the metrics of a process on a port of their own."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from kaboost.service.errors import ConfigError

log = logging.getLogger(__name__)


@contextmanager
def metrics_server(
    host: str, port: int, registry: CollectorRegistry, keys: tuple[str, str]
) -> Iterator[int]:
    """Serve the metrics, and yield the port; `keys` are the settings of port and host."""
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as err:
        raise ConfigError(
            f"{keys[0]} = {port}, {keys[1]} = {host}: {err.strerror}; free it or set another"
        ) from err
    log.info("metrics served", extra={"host": host, "port": server.server_port})
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
