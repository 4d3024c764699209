"""TLS of a port: certificates that are read again when their files change, for new connections."""

import ssl
from collections.abc import Callable
from typing import Any, NoReturn

from kaboost.service.access.watched import WatchedFile
from kaboost.service.config.access import Tls
from kaboost.service.errors import ConfigError

Factory = Callable[[Any, Any], ssl.SSLContext]


def context_factory(tls: Tls) -> Factory | None:
    """Return what makes the context of a server, as uvicorn calls it; None without TLS."""
    if tls.cert is None:
        return None
    context = reloading_context(tls)
    return lambda _config, _default: context


def reloading_context(tls: Tls) -> ssl.SSLContext:
    """Make a context whose handshakes are those of the files as they are now.

    A handshake swaps the context of its connection for the newest one: certificate, key and roots
    of clients change together, and a root that was removed counts no more. What a live context has
    loaded could not be taken back.
    """
    files = [file for file in (tls.cert, tls.key, tls.client_ca) if file is not None]
    watched = WatchedFile(files, lambda: make_context(tls))
    listening = watched.value  # verify_mode is of this one, also after a swap

    def swap(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        newest = watched.current()
        if newest is not listening:
            connection.context = newest

    listening.sni_callback = swap  # called for each handshake, with a name or without
    return listening


def make_context(tls: Tls) -> ssl.SSLContext:
    """Load the files; the error names the setting, its value and what is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    assert tls.cert is not None
    try:
        context.load_cert_chain(tls.cert, tls.key, _refuse_passphrase)
    except (OSError, ValueError) as err:
        raise ConfigError(
            f"api.tls.cert = {tls.cert}, api.tls.key = {tls.key}: {_reason(err)}; "
            "name a certificate and its private key, in PEM, without a passphrase"
        ) from err
    if tls.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        # No session is resumed: it would pass a client whose root was removed meanwhile.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        try:
            context.load_verify_locations(tls.client_ca)
        except OSError as err:
            raise ConfigError(
                f"api.tls.client_ca = {tls.client_ca}: {_reason(err)}; name a file of root "
                "certificates, in PEM"
            ) from err
    return context


def _refuse_passphrase() -> NoReturn:
    """Refuse, where OpenSSL would ask at the terminal."""
    raise ValueError("the key has a passphrase")


def _reason(err: Exception) -> str:
    if isinstance(err, ssl.SSLError):
        return (err.reason or "unreadable").replace("_", " ").lower()
    return getattr(err, "strerror", None) or str(err)
