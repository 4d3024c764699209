"""Whether the API in this container is ready: the command of HEALTHCHECK, quick to start.

The port shows whether it has TLS: the settings may be in a file. Where clients need a certificate
(`api.tls.client_ca`) there is none here: a server that asks for one is up, and that has to do.
"""

import os
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection

TIMEOUT_SECONDS = 1.0  # for each of two attempts: HEALTHCHECK has 3 in all
DEFAULT_PORT = 8000


def is_ready(port: int) -> bool:
    """Ask in the clear, then over TLS, whose certificate has the name that others use."""
    plain = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    secured = HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS, context=context)
    try:
        return _status(plain) == 200
    except (OSError, HTTPException):
        plain.close()
    try:
        secured.connect()
    except OSError:
        return False
    try:
        return _status(secured) == 200
    except (ConnectionError, ssl.SSLError):  # dropped after the handshake: it has no certificate
        return True
    except (OSError, HTTPException):
        return False
    finally:
        secured.close()


def _status(connection: HTTPConnection) -> int:
    connection.request("GET", "/healthz/ready")
    return connection.getresponse().status


if __name__ == "__main__":
    raise SystemExit(not is_ready(int(os.environ.get("KABOOST_API__PORT", DEFAULT_PORT))))
