"""Who may talk to the API: one token in a file only its owner can read, one-time login codes, session cookies.

A session is a signed expiry, so it survives a restart of the server and ends when the token file is replaced.
Every comparison of a secret takes constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from dure.adapters.redact import know
from dure.adapters.whole import create_whole
from dure.model.errors import InvalidInput, Permanent
from dure.model.tenant import Role
from dure.model.who import EVERY, Who

SESSION_S = 12 * 3600
CODE_S = 24 * 3600
MAX_CODES = 64
ROOT = "root"
OWNER = Who("owner", {EVERY: Role.ADMIN}, ROOT)
_TOKEN_BYTES = 32
_SHORTEST_TOKEN = 16


def fetch_token(path: Path) -> str:
    """The token in `path`; made with mode 0600 at the first start. A file that others can read is refused."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    try:
        made = not path.exists() and create_whole(path, f"{token}\n".encode("ascii"), 0o600)
    except OSError as error:
        raise Permanent(f"cannot make the token file: {error.strerror}", where=str(path)) from error
    return know(token if made else _read(path))


def _loose(found: os.stat_result) -> bool:
    """Whether others could read it. A file that somebody else gave to this process's group is as it must be: mounted
    Secrets of Kubernetes and credentials of systemd belong to root."""
    return bool(found.st_mode & (0o077 if found.st_uid == os.geteuid() else 0o027))


def _read(path: Path) -> str:
    try:
        if _loose(path.stat()):
            raise InvalidInput(
                "the token file can be read by others", where=str(path), remedy=f"Run: chmod 600 {path}"
            )
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(f"cannot read the token file: {error}", where=str(path)) from error
    if len(token) < _SHORTEST_TOKEN:
        raise InvalidInput(
            f"the token is shorter than {_SHORTEST_TOKEN} characters",
            where=str(path),
            remedy="Delete the file; a new token is made at the next start.",
        )
    return token


class People(Protocol):
    """Everybody besides the owner of the token file."""

    def check_token(self, candidate: str) -> Who | None: ...

    def find(self, subject: str) -> Who | None:
        """Who this is by now; None once they have nothing to do here any more."""
        ...


class Keys:
    """Checks tokens, codes and cookies. `wall` is real time in seconds since 1970, given so that tests own it.

    Codes and sessions stand for a subject: `root` is who has the token of the file, others are asked of `people`.
    """

    def __init__(self, token: str, *, wall: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._wall = wall
        self._people: People | None = None
        self._codes: dict[bytes, tuple[float, str]] = {}
        self._lock = threading.Lock()
        # Browsers send cookies to every port of a host, so two Dures on one machine need two names.
        self.cookie = f"dure_{hashlib.blake2b(self._token, digest_size=4, person=b'cookie').hexdigest()}"

    def introduce(self, people: People) -> None:
        """Others may come in too from now on."""
        self._people = people

    def check_token(self, candidate: str) -> Who | None:
        if hmac.compare_digest(candidate.encode(), self._token):
            return OWNER
        return self._people.check_token(candidate) if self._people else None

    def new_code(self, subject: str = ROOT) -> str:
        """A login code that works once."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._codes) >= MAX_CODES:
                del self._codes[next(iter(self._codes))]
            self._codes[_digest(code)] = (self._wall() + CODE_S, subject)
        return code

    def redeem_code(self, code: str) -> str | None:
        """Its subject, once for each code. Looked up by digest, so timing tells nothing about the code itself."""
        with self._lock:
            expiry, subject = self._codes.pop(_digest(code), (0.0, ""))
        return subject if expiry > self._wall() else None

    def new_session(self, subject: str = ROOT) -> str:
        shown = base64.urlsafe_b64encode(subject.encode()).decode().rstrip("=")
        body = f"{int(self._wall()) + SESSION_S}.{secrets.token_urlsafe(9)}.{shown}"
        return f"{body}.{self.sign('session', body)}"

    def check_session(self, cookie: str) -> Who | None:
        body, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self.sign("session", body).encode()):
            return None
        expiry, _, rest = body.partition(".")
        shown = rest.rpartition(".")[2]
        if int(expiry) <= self._wall():
            return None
        subject = base64.urlsafe_b64decode(shown + "=" * (-len(shown) % 4)).decode()
        if subject == ROOT:
            return OWNER
        return self._people.find(subject) if self._people else None

    def sign(self, purpose: str, body: str) -> str:
        """A mark that only this Dure, and replicas with the same token file, can make."""
        return hmac.new(self._token, f"{purpose}.{body}".encode(), hashlib.sha256).hexdigest()


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
