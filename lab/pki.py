"""Certificates of one lab cluster: its own authority, and whatever that authority signs.

Used by `lab.cluster` and `lab.kueue`. Keys are P-256 (made in a millisecond) and live only in the lab's folder.
"""

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=3650)
# A cluster may be used by a process whose clock is a little behind.
SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority in a folder of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        builder = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        self.cert = _write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, hosts: Iterable[str]) -> KeyPair:
        """A serving certificate for these DNS names and addresses."""
        return self._issue(name, name, (), hosts, [ExtendedKeyUsageOID.SERVER_AUTH])

    def peer(self, name: str, hosts: Iterable[str]) -> KeyPair:
        """A certificate for two programs that are server and client to each other."""
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue(name, name, (), hosts, usages)

    def client(self, file: str, user: str, groups: Iterable[str] = ()) -> KeyPair:
        """A client certificate: Kubernetes reads the common name as user, organisations as groups."""
        return self._issue(file, user, groups, (), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _issue(
        self,
        file: str,
        common_name: str,
        groups: Iterable[str],
        hosts: Iterable[str],
        usages: list[x509.ObjectIdentifier],
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(common_name, groups), self._name, key)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        names = [_host(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            _write(self._folder / f"{file}.crt", certificate.public_bytes(serialization.Encoding.PEM)),
            write_key(self._folder / f"{file}.key", key),
        )


def signing_key(path: Path) -> Path:
    """A key for service account tokens; the API server verifies with the key it signs with."""
    return write_key(path, ec.generate_private_key(ec.SECP256R1()))


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return _write(path, pem, mode=0o600)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _subject(common_name: str, groups: Iterable[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, data: bytes, mode: int = 0o644) -> Path:
    path.touch(mode=mode)
    path.write_bytes(data)
    return path
