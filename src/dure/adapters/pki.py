"""An authority of one's own in a folder: certificates for the API and for agents, made and renewed without asking.

For a quick start and for installations without an authority; `dure up --tls` uses it. Keys are P-256, files of keys
are readable by their owner alone. After `rotate` the old authority is trusted beside the new one until it ends, so
that clients with the old bundle and servers with old certificates still meet.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dure.adapters.whole import write_whole
from dure.model.errors import InvalidInput

AUTHORITY_DAYS = 3650
LEAF_DAYS = 90
# Renewed when this share of its life is left.
LEFT = 1 / 3
# Clocks of two machines differ.
SKEW = dt.timedelta(minutes=10)


class Pair(NamedTuple):
    certificate: Path
    key: Path


class Certificates(Protocol):
    """Where a server gets its certificate from, now and later."""

    def server(self, hosts: Iterable[str]) -> tuple[Pair, bool]:
        """A certificate for these names and addresses, and whether it is another one than before."""


class Given:
    """A certificate from elsewhere, such as a mounted Secret; whoever made it renews the files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._pair = Pair(certificate, key)
        self._seen = self._marks()

    def server(self, hosts: Iterable[str]) -> tuple[Pair, bool]:
        before, self._seen = self._seen, self._marks()
        return self._pair, before != self._seen

    def _marks(self) -> tuple[float, ...]:
        return tuple(path.stat().st_mtime for path in self._pair)


class Authority:
    def __init__(self, folder: Path, now: dt.datetime | None = None, *, leaf_days: int = LEAF_DAYS) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self._leaf = folder, dt.timedelta(days=leaf_days)
        self.bundle = folder / "ca.crt"
        self._key_file = folder / "ca.key"
        if not self._key_file.exists():
            self._make(now or _now(), [])

    def rotate(self, now: dt.datetime | None = None) -> None:
        """A new authority; those before it stay in the bundle while they are valid."""
        moment = now or _now()
        self._make(moment, [one for one in self._trusted() if one.not_valid_after_utc > moment])

    def server(self, hosts: Iterable[str], now: dt.datetime | None = None) -> tuple[Pair, bool]:
        """A certificate for these names and addresses, and whether it had to be made anew."""
        moment = now or _now()
        wanted = sorted({*hosts, "localhost", "127.0.0.1", "::1"})
        if self._fine(self._pair("server"), wanted, moment):
            return self._pair("server"), False
        return self.issue("server", name_of("dure"), ExtendedKeyUsageOID.SERVER_AUTH, wanted, moment), True

    def issue(
        self,
        file: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        hosts: Iterable[str] = (),
        now: dt.datetime | None = None,
        *,
        also: Iterable[x509.ObjectIdentifier] = (),
    ) -> Pair:
        """A new key with its certificate, in two files of this name; `also` are further uses of it."""
        key, pair = ec.generate_private_key(ec.SECP256R1()), self._pair(file)
        names = [_host(host) for host in hosts]
        made = self._sign(subject, key.public_key(), [usage, *also], names, now or _now())
        # The key first: a server that reads between the two finds an old pair or none that fits, and tries again.
        write_whole(pair.key, _pem_of(key), 0o600)
        write_whole(pair.certificate, made, 0o644)
        return pair

    def sign_agent(self, request: str, cluster: str, now: dt.datetime | None = None) -> str:
        """A client certificate for the key of a signing request; whatever name it asks for, it gets the cluster's."""
        try:
            asked = x509.load_pem_x509_csr(request.encode())
            key = asked.public_key()
        except (ValueError, TypeError) as error:
            raise InvalidInput("this is not a certificate signing request in PEM") from error
        if not asked.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidInput("the signing request is not signed by its own key, or that is not an EC key")
        made = self._sign(name_of(cluster), key, [ExtendedKeyUsageOID.CLIENT_AUTH], [], now or _now())
        return made.decode()

    def _make(self, now: dt.datetime, others: list[x509.Certificate]) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = name_of(f"Dure authority {now:%Y-%m-%d %H:%M:%S}")
        lasts = dt.timedelta(days=AUTHORITY_DAYS)
        certificate = (
            _builder(name, name, key.public_key(), now, lasts)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        write_whole(self.bundle, b"".join(map(_pem, [certificate, *others])), 0o644)
        write_whole(self._key_file, _pem_of(key), 0o600)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        usages: list[x509.ObjectIdentifier],
        names: list[x509.GeneralName],
        now: dt.datetime,
    ) -> bytes:
        own = self._trusted()[0]
        builder = _builder(subject, own.subject, key, now, self._leaf)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signer = serialization.load_pem_private_key(self._key_file.read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        return _pem(builder.sign(signer, hashes.SHA256()))

    def _fine(self, pair: Pair, hosts: list[str], now: dt.datetime) -> bool:
        try:
            known = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
            known.verify_directly_issued_by(self._trusted()[0])
            names = known.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return False
        left = (known.not_valid_after_utc - now) / self._leaf
        return pair.key.exists() and left > LEFT and set(names) == {_host(host) for host in hosts}

    def _pair(self, file: str) -> Pair:
        return Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")

    def _trusted(self) -> list[x509.Certificate]:
        return x509.load_pem_x509_certificates(self.bundle.read_bytes())


def signing_request(name: str) -> tuple[str, str]:
    """A new key and a request to sign it, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(name_of(name)).sign(key, hashes.SHA256())
    return _pem_of(key).decode(), request.public_bytes(serialization.Encoding.PEM).decode()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime, lasts: dt.timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + lasts)
    )


def name_of(common_name: str, group: str = "") -> x509.Name:
    """Kubernetes reads the common name as the user and the organisation as a group."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
