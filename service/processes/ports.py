"""The ports of a service: looked at before any process starts, so that a taken one is reported."""

import errno
import http.client
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kaboost.service.config.admin import Admin
from kaboost.service.config.api import Api
from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError

BACKLOG = 2048
ANSWER_SECONDS = 1.0  # of a service that may have the port
READY, ENDING = "/healthz/ready", b"the service is shutting down"
Wait = Callable[[], bool]  # waits a little; whether a taken port may become free soon

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}

log = logging.getLogger(__name__)


def never() -> bool:
    """Wait for no port."""
    return False


@contextmanager
def open_listener(api: Api, wait: Wait = never) -> Iterator[socket.socket]:
    """Listen on the port of the API; one that is taken is tried again while `wait` returns true."""
    with _bound("api", api.host, api.port, wait) as listener:
        listener.listen(BACKLOG)
        log.info("listening", extra={"host": api.host, "port": listener.getsockname()[1]})
        yield listener


@contextmanager
def open_admin_listener(admin: Admin, wait: Wait = never) -> Iterator[socket.socket | None]:
    """Listen on the admin port; None where there is none."""
    if admin.port is None:
        yield None
        return
    with _bound("admin", admin.host, admin.port, wait) as listener:
        listener.listen(BACKLOG)
        fields = {"host": admin.host, "port": listener.getsockname()[1]}
        log.info("commands taken", extra={**fields, "key": admin.key is not None})
        yield listener


@contextmanager
def reserve_metrics_port(settings: Settings, wait: Wait = never) -> Iterator[Settings]:
    """Yield settings with the port of the learner's metrics: port 0 becomes a free one.

    It does not listen: while the learner is down, connections are refused. On Linux the learner,
    which binds with SO_REUSEADDR as well, can listen meanwhile, and no other connection gets it.
    """
    metrics = settings.metrics
    with _bound("metrics", metrics.host, metrics.port, wait) as reserved:
        port = reserved.getsockname()[1]
        if sys.platform != "linux":
            reserved.close()
        yield settings.model_copy(update={"metrics": metrics.model_copy(update={"port": port})})


def learner_metrics_url(settings: Settings) -> str:
    """Return the URL of the learner's metrics on this machine."""
    host = _LOOPBACK.get(settings.metrics.host, settings.metrics.host)
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{settings.metrics.port}/metrics"


def is_serving(api: Api) -> bool:
    """Return whether a service answers at the port of the API, and is not about to end.

    One that wants a certificate of its clients answers, too; whether it ends it does not show.
    """
    host = _LOOPBACK.get(api.host, api.host)
    connection = _connection(api, host)
    shakes_hands = False
    try:
        connection.connect()
        shakes_hands = api.tls.client_ca is not None
        connection.request("GET", READY)
        answer = connection.getresponse()
        return answer.status in (200, 503) and ENDING not in answer.read()
    except (ConnectionError, ssl.SSLError):
        return shakes_hands  # and drops who has no certificate
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(api: Api, host: str) -> http.client.HTTPConnection:
    """Connect to a service of this machine; its certificate has the name that others use."""
    if api.tls.cert is None:
        return http.client.HTTPConnection(host, api.port, timeout=ANSWER_SECONDS)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, api.port, timeout=ANSWER_SECONDS, context=context)


@contextmanager
def _bound(section: str, host: str, port: int, wait: Wait) -> Iterator[socket.socket]:
    """Bind a port, or refuse the configuration."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                bound.bind((host, port))
                break
            except OSError as err:
                if err.errno == errno.EADDRINUSE and wait():
                    continue
                raise ConfigError(
                    f"{section}.host = {host}, {section}.port = {port}: {err.strerror}; free it or "
                    "set another"
                ) from err
        yield bound
