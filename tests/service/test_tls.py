"""TLS of the API with certificates of a real CA, replaced under load; certificates of clients."""

import signal
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from deploy.image.health import is_ready
from kaboost.service.access.authenticator import check_access
from kaboost.service.errors import ConfigError
from kaboost.service.processes.ports import is_serving
from kaboost.service.status_command import address_of
from tests.ports import free_port
from tests.service.learning import until
from tests.service.serving import PATIENCE, ROW, Program, publish, running, settings, taught

HOST = "localhost"


def write(folder: Path, server: trustme.LeafCert, clients: trustme.CA | None = None) -> None:
    """Write certificate, key and the clients' root as a renewal does: each renamed into place."""
    parts = {"key.pem": server.private_key_pem.bytes()}
    parts["cert.pem"] = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    if clients is not None:
        parts["clients.pem"] = clients.cert_pem.bytes()
    for name, text in parts.items():
        (folder / "new.pem").write_bytes(text)
        (folder / "new.pem").rename(folder / name)


def section(folder: Path, *, clients: bool = False) -> dict[str, Any]:
    """Make the section `tls` of these files."""
    paths = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    return paths | ({"client_ca": str(folder / "clients.pem")} if clients else {})


def trusting(ca: trustme.CA, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """Trust a CA, and show a certificate."""
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if client is not None:
        client.configure_cert(context)
    return context


def connect(program: Program, context: ssl.SSLContext) -> httpx.Client:
    """Make a client over TLS."""
    url = f"https://{HOST}:{program.port}"
    return httpx.Client(base_url=url, verify=context, timeout=PATIENCE, trust_env=False)


def serial(program: Program, context: ssl.SSLContext) -> str:
    """Return the serial number of the certificate that a new connection is shown."""
    with connect(program, context) as client, client.stream("GET", "/healthz/live") as answer:
        shown = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
        return str(shown["serialNumber"])


class Load:
    """Clients that open a connection for each request, until they are stopped."""

    def __init__(self, program: Program, contexts: list[ssl.SSLContext]) -> None:
        self.results: Counter[str] = Counter()
        self._program, self._contexts, self._stop = program, contexts, threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._stop.is_set():
            try:
                with connect(self._program, self._contexts[-1]) as client:
                    answer = client.post("/predict", json={"features": ROW})
                    self.results[str(answer.status_code)] += 1
            except Exception as err:
                self.results[f"failed: {err!r}"] += 1

    def more(self) -> None:
        """Wait until some more requests were answered."""
        wanted = self.results["200"] + 20
        until(lambda: self.results["200"] >= wanted or set(self.results) != {"200"})

    def stop(self) -> dict[str, int]:
        """Stop, and return how many requests had which result."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        return dict(self.results)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Program, Path]]:
    """A service that wants certificates of its clients, over one snapshot."""
    folder = tmp_path_factory.mktemp("tls")
    write(folder, OURS.issue_cert(HOST), THEIRS)
    api = {"port": free_port(), "drain_seconds": 0.0, "tls": section(folder, clients=True)}
    wanted = settings(folder, api=api)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.client.close()
        program.client = connect(program, trusting(OURS, THEIRS.issue_cert("shop.example.com")))
        program.ready()
        yield program, folder


OURS, THEIRS, STRANGERS = trustme.CA(), trustme.CA(), trustme.CA()


def test_clients_need_a_certificate(certified: tuple[Program, Path]) -> None:
    """Of the configured root; without one, with another one, in the clear nothing is answered."""
    program, _ = certified
    assert 200 == program.client.get("/model").status_code
    for client in (None, STRANGERS.issue_cert("shop.example.com")):
        with connect(program, trusting(OURS, client)) as refused, pytest.raises(httpx.HTTPError):
            refused.get("/model")
    with Program.connect(program.port) as plain, pytest.raises(httpx.HTTPError):
        plain.get("/model")
    with connect(program, trusting(STRANGERS)) as distrusting, pytest.raises(httpx.ConnectError):
        distrusting.get("/model")


def test_a_service_that_wants_certificates_is_seen(
    certified: tuple[Program, Path], tmp_path: Path
) -> None:
    """A taken port is reported, and the image's check is green, without a certificate of theirs."""
    program, folder = certified
    tls = section(folder, clients=True)

    assert is_serving(settings(tmp_path, api={"port": program.port, "tls": tls}).api)
    assert not is_serving(settings(tmp_path, api={"tls": tls}).api)
    assert is_ready(program.port)
    assert not is_ready(free_port())


def test_certificates_are_replaced_under_load(certified: tuple[Program, Path]) -> None:
    """The server's, then the clients' root: no request fails; the root that was removed is out."""
    program, folder = certified
    contexts = [trusting(OURS, THEIRS.issue_cert("shop.example.com"))]
    before = serial(program, contexts[0])
    next_clients = trustme.CA()
    load = Load(program, contexts)
    try:
        load.more()
        write(folder, OURS.issue_cert(HOST))
        until(lambda: serial(program, contexts[0]) != before)
        load.more()
        both = THEIRS.cert_pem.bytes() + next_clients.cert_pem.bytes()
        (folder / "clients.pem").write_bytes(both)
        newer = trusting(OURS, next_clients.issue_cert("shop.example.com"))
        until(lambda: answers(program, newer))
        contexts.append(newer)
        load.more()
        write(folder, OURS.issue_cert(HOST), next_clients)
        until(lambda: not answers(program, contexts[0]))
        load.more()
    finally:
        found = load.stop()
        write(folder, OURS.issue_cert(HOST), THEIRS)

    assert {"200"} == set(found)
    until(lambda: answers(program, contexts[0]))


def answers(program: Program, context: ssl.SSLContext) -> bool:
    """Whether a new connection is accepted."""
    try:
        with connect(program, context) as client:
            return client.get("/healthz/live").status_code == 200
    except httpx.HTTPError:
        return False


def test_damaged_files_change_nothing(certified: tuple[Program, Path]) -> None:
    """A key of another certificate is logged, and the earlier pair is served on."""
    program, folder = certified
    context = trusting(OURS, THEIRS.issue_cert("shop.example.com"))
    key = (folder / "key.pem").read_bytes()
    (folder / "key.pem").write_bytes(OURS.issue_cert(HOST).private_key_pem.bytes())

    def reported() -> bool:
        assert answers(program, context)
        lines = program.events("file not read, the earlier content counts")
        return any("key values mismatch" in line["reason"] for line in lines)

    until(reported)
    assert answers(program, context)
    (folder / "key.pem").write_bytes(key)


def test_it_drains_over_tls(tmp_path: Path) -> None:
    """At the end every request that was sent is answered; the exit code is 0."""
    write(tmp_path, OURS.issue_cert(HOST))
    api = {"port": free_port(), "drain_seconds": 0.5, "tls": section(tmp_path)}
    wanted = settings(tmp_path, api=api)
    publish(wanted, taught(wanted))
    with running("api", wanted) as program:
        program.client.close()
        program.client = connect(program, trusting(OURS))
        program.ready()
        assert is_serving(wanted.api)
        assert is_ready(wanted.api.port)
        assert f"https://127.0.0.1:{program.port}" == address_of(wanted)
        load = Load(program, [trusting(OURS)])
        load.more()
        program.client.get("/model")  # an idle connection, whose client reads nothing more
        code = program.end(signal.SIGTERM)
        found = load.stop()

    assert 0 == code
    assert "graceful shutdown exceeded" not in program._log.read_text()
    failed = {result for result in found if result != "200" and "Connection refused" not in result}
    assert set() == failed


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        ({"cert": "cert.pem"}, "api.tls has no key"),
        ({"key": "key.pem"}, "api.tls has no cert"),
        ({"client_ca": "clients.pem"}, "client_ca needs cert and key"),
        ({"cert": "no.pem", "key": "key.pem"}, "No such file or directory; name a certificate"),
        ({"cert": "key.pem", "key": "key.pem"}, "api.tls.key = .*; name a certificate"),
        ({"cert": "cert.pem", "key": "other.pem"}, "key values mismatch; name a certificate"),
        ({"cert": "cert.pem", "key": "locked.pem"}, "has a passphrase"),
        (
            {"cert": "cert.pem", "key": "key.pem", "client_ca": "empty"},
            "client_ca = .*; name a file",
        ),
    ],
)
def test_faults_name_setting_and_remedy(tmp_path: Path, tls: dict[str, str], words: str) -> None:
    """At the start, and with `config check`."""
    write(tmp_path, OURS.issue_cert(HOST), THEIRS)
    (tmp_path / "other.pem").write_bytes(OURS.issue_cert(HOST).private_key_pem.bytes())
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "locked.pem").write_bytes(locked())
    given = {name: str(tmp_path / file) for name, file in tls.items()}
    with pytest.raises(ConfigError, match=words):
        check_access(settings(tmp_path, api={"tls": given}))


def locked() -> bytes:
    """Make a private key with a passphrase."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word"))
