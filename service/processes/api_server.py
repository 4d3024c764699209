"""Build the HTTP server: listener, application and uvicorn's configuration."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Api, Settings
from kaboost.service.errors import ConfigError
from kaboost.service.http import routes
from kaboost.service.http.follower import Follower
from kaboost.service.http.newest_version import WorkerVersions
from kaboost.service.metrics import api_metrics

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75  # longer than clients' pools keep a connection: they close it first

log = logging.getLogger(__name__)


def create_api(
    settings: Settings,
    versions: WorkerVersions | None = None,
    learner_metrics: str | None = None,
    follower: Follower | None = None,
) -> FastAPI:
    """Build the HTTP application with its parts."""
    registry = CollectorRegistry()
    metrics = api_metrics(registry)
    follower = follower or Follower(settings, versions)
    return routes.build(routes.Parts(settings, follower, metrics, registry, learner_metrics))


def create_server(settings: Settings, app: FastAPI) -> uvicorn.Server:
    """Make the HTTP server of an application."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.api.timeout_seconds) + 1,
    )
    return uvicorn.Server(config)


@contextmanager
def open_listener(api: Api) -> Iterator[socket.socket]:
    """Bind the port before any process starts, so that a taken port is reported at once."""
    family = socket.AF_INET6 if ":" in api.host else socket.AF_INET
    try:
        listener = socket.create_server((api.host, api.port), family=family, backlog=BACKLOG)
    except OSError as err:
        raise ConfigError(
            f"api.host = {api.host}, api.port = {api.port}: {err.strerror}; free it or set another"
        ) from err
    with listener:
        log.info("listening", extra={"host": api.host, "port": listener.getsockname()[1]})
        yield listener


def learner_metrics_url(settings: Settings) -> str:
    """Return the URL of the learner's metrics on this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.metrics.host, settings.metrics.host)
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{settings.metrics.port}/metrics"
