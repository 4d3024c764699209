"""Serve the admin port from a thread: of the supervisor, or of a learner without one.

It only writes and reads the files of commands, so it answers while the learner is down, too.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from kaboost.service.access.tls import context_factory
from kaboost.service.config.settings import Settings
from kaboost.service.http.admin import create_admin
from kaboost.service.processes.ports import Wait, never, open_admin_listener

CLOSE_SECONDS = 1  # for a request that waits for its learner


@contextmanager
def serve_commands(settings: Settings, wait: Wait = never) -> Iterator[None]:
    """Take commands on `admin.port` meanwhile, if there is one."""
    with open_admin_listener(settings.admin, wait) as listener:
        if listener is None:
            yield
            return
        config = uvicorn.Config(
            create_admin(settings),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_context_factory=context_factory(settings.api.tls),
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), name="admin", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(2 * CLOSE_SECONDS)
