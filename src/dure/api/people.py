"""Everybody besides the owner: holders of API tokens, and people who signed in elsewhere.

Asked by `Keys` on every request, hence a short memory: what was revoked in another replica ends here within two
seconds, what was revoked here at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from dure.model.tenant import Role
from dure.model.token import Token
from dure.model.who import EVERY, Who
from dure.plane import tokens
from dure.ports import StorePort

FRESH_S = 2.0
MAX_KNOWN = 4096
OIDC = "oidc:"
TOKEN = "token:"


class Directory:
    """`admins` are people who may do everything. `wall` is real time, `timer` never goes back; tests own both."""

    def __init__(
        self,
        store: StorePort,
        admins: Iterable[str] = (),
        *,
        wall: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._wall, self._timer = store, wall, timer
        self._admins = frozenset(admins)
        self._known: dict[str, tuple[float, Token | Who | None]] = {}
        self._lock = threading.Lock()

    def check_token(self, candidate: str) -> Who | None:
        parts = tokens.split(candidate)
        token = self._remembered(f"{TOKEN}{parts[0]}") if parts else None
        if parts is None or not isinstance(token, Token):
            return None
        now_s = self._wall()
        return token.who if token.lives(now_s) and tokens.opens(token, parts[1], now_s) else None

    def find(self, subject: str) -> Who | None:
        found = self._remembered(subject)
        if isinstance(found, Token):
            return found.who if found.lives(self._wall()) else None
        return found

    def forget(self) -> None:
        """Something was changed here: ask the store anew."""
        with self._lock:
            self._known.clear()

    def _remembered(self, subject: str) -> Token | Who | None:
        now = self._timer()
        with self._lock:
            at, known = self._known.get(subject, (-FRESH_S, None))
        if now - at < FRESH_S:
            return known
        found = self._look_up(subject)
        with self._lock:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[subject] = (now, found)
        return found

    def _look_up(self, subject: str) -> Token | Who | None:
        if subject.startswith(TOKEN):
            return tokens.find(self._store, subject.removeprefix(TOKEN), self._wall())
        if subject.startswith(OIDC):
            return self._member(subject)
        return None

    def _member(self, subject: str) -> Who | None:
        """A person has the roles that tenants give them by name; without any they are nobody here."""
        name = subject.removeprefix(OIDC)
        grants: dict[str, Role] = {
            one.name: one.roles[name] for one in self._store.list_tenants() if name in one.roles
        }
        if name in self._admins:
            grants[EVERY] = Role.ADMIN
        return Who(name, grants, subject) if grants else None
