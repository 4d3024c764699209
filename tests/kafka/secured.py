"""A real broker with a real CA: a listener for SCRAM over TLS, one for clients' certificates."""

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.kafka.broker import Broker
from tests.ports import free_port

HOST = "localhost"  # of the broker's certificate
USER, PASSWORD = "kaboost", "the-password-of-nobody"
SCRAM = "SCRAM-SHA-512"

SECURITY = """
sasl.enabled.mechanisms={scram}
listener.name.scram.{mechanism}.sasl.jaas.config={login} required;
listener.name.mtls.ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location={keys}
ssl.truststore.type=PEM
ssl.truststore.location={roots}
"""
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredBroker(Broker):
    """A broker whose clients prove who they are; tests themselves come in without."""

    def __init__(self, ca: trustme.CA) -> None:
        super().__init__()
        self._ca = ca
        self.scram, self.mutual = (f"{HOST}:{free_port()}" for _ in range(2))
        text = self._properties.read_text()
        for name in ("listeners", "advertised.listeners"):
            more = f"SCRAM://{self.scram},MTLS://{self.mutual}"
            text = text.replace(f"\n{name}=", f"\n{name}={more},")
        protocols = "\nlistener.security.protocol.map="
        text = text.replace(protocols, f"{protocols}SCRAM:SASL_SSL,MTLS:SSL,")
        keys, roots = self._folder / "broker.pem", self._folder / "ca.pem"
        ca.cert_pem.write_to_path(roots)
        write_certificate(keys, ca.issue_cert(HOST))
        self._properties.write_text(
            text
            + SECURITY.format(
                scram=SCRAM, mechanism=SCRAM.lower(), login=LOGIN, keys=keys, roots=roots
            )
        )
        self.roots = roots

    def _format(self) -> None:
        """Format with the account of the tests."""
        account = f"{SCRAM}=[name={USER},password={PASSWORD}]"
        self._format_with("--add-scram", account)


def write_certificate(path: Path, leaf: trustme.LeafCert) -> None:
    """Write key and chain into one file; Kafka reads keys as PKCS #8."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(text + b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
