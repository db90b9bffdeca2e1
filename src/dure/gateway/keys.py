"""Which Job a request with an idempotency key has made, whatever it is called by now.

A Job that was made anew for another queue has another name than the one that was asked for, and so may one whose
class renames it; a repeated request must find it all the same. The key's digest is written into the Job, so that
`recovery` can fill this again. Whoever makes or renames a Job of a key holds the key meanwhile.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KEPT = 100_000
_STRIPES = 64


def key_digest(key: str) -> str:
    """As it stands in the Job; empty for no key."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() if key else ""


class Keys:
    """Safe for many threads. The oldest are forgotten; their Jobs are still found by the name they were given."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._names = kept, dict[tuple[str, str], str]()
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    @contextmanager
    def held(self, namespace: str, digest: str) -> Iterator[None]:
        """Nobody else does anything about this key meanwhile."""
        if not digest:
            yield
            return
        with self._locks[hash((namespace, digest)) % _STRIPES]:
            yield

    def name(self, namespace: str, digest: str) -> str:
        """Of the Job as it was last heard of; empty when there is none."""
        return self._names.get((namespace, digest), "")

    def put(self, namespace: str, digest: str, name: str) -> None:
        if not digest:
            return
        self._names[namespace, digest] = name
        while len(self._names) > self._kept:
            self._names.pop(next(iter(self._names)), None)
