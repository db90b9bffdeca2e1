"""The certificates of one virtual cluster: its own authority, its servers, its clients. Used by `control_plane`.

The authority is made once and kept; everything it signs is made anew at every start, so that nothing of it runs out
while somebody uses it.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
LEAF_DAYS = 365
# Clocks of two machines differ.
_SKEW = dt.timedelta(hours=1)


class Pair(NamedTuple):
    certificate: Path
    key: Path


class VirtualAuthority:
    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder, self._name = folder, name
        self.certificate, self._key_file = folder / "ca.crt", folder / "ca.key"
        if not self.certificate.exists():
            self._make()

    def server(self, hosts: Sequence[str]) -> Pair:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._issue("server", x509.Name([_common("kube-apiserver")]), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, group: str) -> Pair:
        """Kubernetes reads the common name as the user and the organisation as a group."""
        subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), _common(user)])
        return self._issue(user.replace(":", "-"), subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def signing_key(self) -> Path:
        """Of service account tokens; one that changed would end every token."""
        path = self._folder / "tokens.key"
        if not path.exists():
            _write_key(path, ec.generate_private_key(ec.SECP256R1()))
        return path

    def kubeconfig(self, server: str, client: Pair) -> str:
        """With the certificates inside, so that the text is enough."""
        user = {"client-certificate-data": _inline(client.certificate), "client-key-data": _inline(client.key)}
        cluster = {"server": server, "certificate-authority-data": _inline(self.certificate)}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": self._name,
                "clusters": [{"name": self._name, "cluster": cluster}],
                "users": [{"name": self._name, "user": user}],
                "contexts": [{"name": self._name, "context": {"cluster": self._name, "user": self._name}}],
            },
            sort_keys=False,
        )

    def _make(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([_common(f"{self._name} authority")])
        builder = _builder(name, name, key, AUTHORITY_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        _write_key(self._key_file, key)
        made = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        self.certificate.write_bytes(made)

    def _issue(
        self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.load_pem_x509_certificate(self.certificate.read_bytes())
        builder = _builder(subject, own.subject, key, LEAF_DAYS)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        signer = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        pair = Pair(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        _write_key(pair.key, key)
        pair.certificate.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return pair


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _common(name: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(NameOID.COMMON_NAME, name[:64])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
