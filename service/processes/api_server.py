"""Build the HTTP server: application and uvicorn's configuration."""

from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from kaboost.service.access.tls import context_factory
from kaboost.service.config.settings import Settings
from kaboost.service.http import routes
from kaboost.service.http.follower import Follower
from kaboost.service.http.newest_version import WorkerVersions
from kaboost.service.kafka.sender import RecordSender
from kaboost.service.metrics import api_metrics
from kaboost.service.processes.draining_server import Draining, DrainingServer

KEEP_ALIVE_SECONDS = 75  # longer than clients' pools keep a connection: they close it first


def create_api(
    settings: Settings,
    versions: WorkerVersions | None = None,
    learner_metrics: str | None = None,
    follower: Follower | None = None,
    is_draining: Callable[[], bool] = lambda: False,
) -> FastAPI:
    """Build the HTTP application with its parts."""
    registry = CollectorRegistry()
    versions = versions or WorkerVersions()
    parts = routes.Parts(
        settings,
        follower or Follower(settings, versions),
        api_metrics(registry),
        registry,
        RecordSender(settings.kafka.client(), settings.predictions.max_pending),
        learner_metrics,
        is_draining,
        versions.beat,
    )
    return routes.build(parts)


def create_server(settings: Settings, app: FastAPI, draining: Draining) -> DrainingServer:
    """Make the HTTP server of an application that knows of `draining`."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_context_factory=context_factory(settings.api.tls),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.api.timeout_seconds) + 1,
    )
    return DrainingServer(config, draining, settings.api.drain_seconds)
