"""An HTTP server whose end loses no request: it drains before it closes."""

import asyncio
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

CLOSE_SECONDS = 0.05  # in which the event loop closes its own copy of a listening socket
FIRST_REQUEST_SECONDS = 1.0  # for the first request of a connection that was just accepted
SILENT_SECONDS = 0.5  # for the client of an idle connection to answer the end of TLS
POLL_SECONDS = 0.02


class Draining:
    """Whether a process is about to end; `started` may be set by a signal handler."""

    def __init__(self) -> None:
        self.started = False

    def __call__(self) -> bool:
        """Return whether it is."""
        return self.started


class DrainingServer(uvicorn.Server):
    """Serve until a signal, and end in steps.

    1. Not ready, while requests are still served: balancers send the next ones elsewhere. Every
       response closes its connection, so that no client reuses one that is about to be closed.
    2. Refuse new connections; those that are waiting are accepted first.
    3. Wait for the first request of connections that had none yet.
    4. Close idle connections, and finish the requests in flight.
    """

    def __init__(self, config: uvicorn.Config, draining: Draining, drain_seconds: float) -> None:
        super().__init__(config)
        self._draining = draining
        self._drain_seconds = drain_seconds
        # Whether a signal came before this server had its own handlers.
        self.is_asked_to_end: Callable[[], bool] = lambda: False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: not ready from now on."""
        self._draining.started = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Look whether to end, several times a second."""
        if self.is_asked_to_end():
            self._draining.started = self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End in the steps of the class."""
        self._draining.started = True
        await self._wait(self._drain_seconds, lambda: False)
        await self._stop_listening(sockets or [])
        await self._wait(FIRST_REQUEST_SECONDS, self._all_had_a_request)
        silent = asyncio.create_task(self._abort_silent())
        await super().shutdown(sockets)
        silent.cancel()

    async def _stop_listening(self, sockets: list[socket.socket]) -> None:
        """Close the listening sockets; connections that they have not accepted would be reset."""
        copies = [sock.dup() for sock in sockets]
        for server in self.servers:
            server.close()
        for sock in sockets:
            sock.close()
        await asyncio.sleep(CLOSE_SECONDS)
        accepted = [connection for copy in copies for connection in _accept_all(copy)]
        loop = asyncio.get_running_loop()
        for connection in accepted:
            await loop.connect_accepted_socket(self._make_protocol, connection, ssl=self.config.ssl)

    async def _abort_silent(self) -> None:
        """Abort idle connections that were closed and whose clients, which read nothing now, do not
        answer the end of TLS: without it they would be waited for.
        """
        while self.config.ssl:
            await asyncio.sleep(SILENT_SECONDS)
            for connection in list(self.server_state.connections):
                transport = getattr(connection, "transport", None)
                if transport and transport.is_closing() and not transport.get_write_buffer_size():
                    transport.abort()

    def _make_protocol(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _all_had_a_request(self) -> bool:
        return all(getattr(each, "cycle", None) for each in self.server_state.connections)

    async def _wait(self, seconds: float, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not done() and not self.force_exit:
            await asyncio.sleep(POLL_SECONDS)


def _accept_all(listener: socket.socket) -> list[socket.socket]:
    """Accept the connections that wait, and close the listening socket right after the last."""
    listener.setblocking(False)
    accepted = []
    with listener:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # none waits, or it was closed by its client
                break
            connection.setblocking(False)
            accepted.append(connection)
    return accepted
