"""The etcd that keeps the state of virtual clusters, and who may read what of it. Used by `control_plane`.

With certificates of its own every API server is a user of etcd by the name in its certificate, with a role for the
keys below its prefix and nothing else: one that is taken over reads no other tenant's state. Users and roles are
made by `root`, who has a password, because etcd's JSON gateway takes no user from a certificate. Every step may be
repeated. Without certificates etcd trusts whoever can reach it: for one on loopback that nobody else can.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dure.adapters.pki import Authority, Pair, name_of
from dure.adapters.whole import write_whole
from dure.model.errors import NotAllowed, Temporary

_TIMEOUT_S = 30.0
_DAYS = 365
_ROOT = "root"
_SERVER, _KEEPER = "etcd", "keeper"
# The gateway refuses a certificate with a name of its own: it could be taken for the user, and is not.
_NAMELESS = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dure")])


class Access(NamedTuple):
    """Where one API server finds its etcd, and as who; no files where etcd asks for none."""

    url: str
    authority: Path | None = None
    pair: Pair | None = None

    @property
    def flags(self) -> list[str]:
        found = [f"--etcd-servers={self.url}"]
        if self.authority is None or self.pair is None:
            return found
        files = [f"--etcd-cafile={self.authority}", f"--etcd-certfile={self.pair.certificate}"]
        # An API server notes how far it has compacted under a key of everybody; such an etcd compacts by itself.
        return [*found, *files, f"--etcd-keyfile={self.pair.key}", "--etcd-compaction-interval=0"]


class Etcd:
    """`folder` has the authority that etcd trusts, made by `server_flags`; None for an etcd without certificates."""

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self.url, self._folder = url, folder
        self._authority = Authority(folder, leaf_days=_DAYS) if folder is not None else None

    def server_flags(self, hosts: Iterable[str]) -> list[str]:
        """Make the server's own certificate; what etcd has to be started with."""
        assert self._authority is not None
        # The gateway inside of etcd is a client of its own server.
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        pair = self._authority.issue(_SERVER, name_of(_SERVER), usages[0], hosts, also=usages[1:])
        return [
            f"--cert-file={pair.certificate}",
            f"--key-file={pair.key}",
            f"--trusted-ca-file={self._authority.bundle}",
            "--client-cert-auth",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=5m",
        ]

    def admit(self, key: str, prefix: str) -> Access:
        """Let one virtual cluster at the keys below its prefix, and at no others."""
        if self._authority is None:
            return Access(self.url)
        user, (first, after) = _user(key), _below(prefix)
        with closing(self._root()) as root:
            root.ask("auth/role/add", {"name": user}, unless="role name already exists")
            root.ask("auth/role/grant", {"name": user, "perm": {"permType": 2, "key": first, "range_end": after}})
            options = {"name": user, "options": {"no_password": True}}
            root.ask("auth/user/add", options, unless="user name already exists")
            root.ask("auth/user/grant", {"user": user, "role": user})
        pair = self._authority.issue(user, name_of(user), ExtendedKeyUsageOID.CLIENT_AUTH)
        return Access(self.url, self._authority.bundle, pair)

    def forget(self, key: str, prefix: str) -> None:
        """Delete every key below the prefix, and who had a right to them."""
        first, after = _below(prefix)
        with closing(self._root()) as root:
            root.ask("kv/deleterange", {"key": first, "range_end": after})
            if self._authority is not None:
                root.ask("auth/user/delete", {"name": _user(key)}, unless="user name not found")
                root.ask("auth/role/delete", {"role": _user(key)}, unless="role name not found")
                for path in (self._authority.folder / f"{_user(key)}.{end}" for end in ("crt", "key")):
                    path.unlink(missing_ok=True)

    def _root(self) -> _Gateway:
        """Who may do everything. The first time there is nobody yet, and from then on nobody gets in unknown."""
        if self._authority is None:
            return _Gateway(self.url, None)
        pair = self._authority.issue(_KEEPER, _NAMELESS, ExtendedKeyUsageOID.CLIENT_AUTH)
        gateway = _Gateway(self.url, _context(self._authority.bundle, pair))
        try:
            if not gateway.log_in(self._password()):
                self._make_root(gateway)
                gateway.log_in(self._password())
        except BaseException:
            gateway.close()
            raise
        return gateway

    def _make_root(self, gateway: _Gateway) -> None:
        named = {"name": _ROOT, "password": self._password()}
        gateway.ask("auth/user/add", named, unless="user name already exists")
        gateway.ask("auth/user/changepw", named)
        gateway.ask("auth/role/add", {"name": _ROOT}, unless="role name already exists")
        gateway.ask("auth/user/grant", {"user": _ROOT, "role": _ROOT})
        gateway.ask("auth/enable", {})

    def _password(self) -> str:
        assert self._folder is not None
        path = self._folder / "root.password"
        if not path.exists():
            write_whole(path, secrets.token_urlsafe(32).encode(), 0o600)
        return path.read_text()


class _Gateway:
    """JSON to etcd's own gateway."""

    def __init__(self, url: str, tls: ssl.SSLContext | None) -> None:
        self._url = url
        self._http = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, verify=True if tls is None else tls)

    def close(self) -> None:
        self._http.close()

    def log_in(self, password: str) -> bool:
        """Whether there is anything to log in to: an etcd that knows nobody yet asks nobody who he is."""
        named = {"name": _ROOT, "password": password}
        token = self.ask("auth/authenticate", named, unless="authentication is not enabled").get("token", "")
        self._http.headers["Authorization"] = token
        return bool(token)

    def ask(self, path: str, body: dict[str, Any], *, unless: str = "") -> dict[str, Any]:
        """`unless` is the refusal that means that it is so already."""
        try:
            answer = self._http.post(f"{self._url}/v3/{path}", json=body)
            found: dict[str, Any] = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Temporary(f"etcd at {self._url} does not answer: {error}") from error
        if answer.is_success:
            return found
        message = str(found.get("message", ""))
        if unless and unless in message:
            return found
        if answer.status_code < 500:
            raise NotAllowed(f"etcd at {self._url} refuses {path}: {message}", remedy="Was its folder replaced?")
        raise Temporary(f"etcd at {self._url} fails at {path}: {message}")


def _user(key: str) -> str:
    """Certificates have names of at most 64 characters."""
    return f"dure-virtual-{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"


def _below(prefix: str) -> tuple[str, str]:
    """The first key below a prefix and the first one after them."""
    first = f"{prefix}/".encode()
    after = first[:-1] + bytes([first[-1] + 1])
    return base64.b64encode(first).decode(), base64.b64encode(after).decode()


def _context(authority: Path, pair: Pair) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority))
    made.load_cert_chain(pair.certificate, pair.key)
    return made
