"""Every choice and every move, with what was seen: kept in memory for `why`, appended to a file for the audit."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any

import msgspec

from dure.model.errors import Permanent
from dure.model.units import Instant
from dure.route.situation import Offer

KEPT_JOBS = 20_000
KEPT_MOVES = 1_000


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`what`: chosen, moved, finished, refused. `rule` and `because` are the policy's own words."""

    at_s: Instant
    what: str
    namespace: str
    job: str
    queue: str
    class_name: str
    rule: str
    because: str
    who: str = ""
    from_queue: str = ""
    eta_s: Instant | None = None
    offers: tuple[Offer, ...] = ()
    saw: dict[str, Any] = {}
    stale_s: float = 0.0


class Journal:
    """Safe for many threads. Without a path the audit lives as long as the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[str, str], list[Entry]] = OrderedDict()
        self._moves: deque[Entry] = deque(maxlen=KEPT_MOVES)
        try:
            self._file = path.open("ab") if path else None
        except OSError as error:
            raise Permanent(f"the audit cannot be written: {error.strerror}", where=str(path)) from error

    def write(self, entry: Entry, also: str = "") -> None:
        """`also` is another name under which this job is asked for: the one that it had before a move."""
        with self._lock:
            for name in dict.fromkeys((also or entry.job, entry.job)):
                key = (entry.namespace, name)
                self._jobs.setdefault(key, []).append(entry)
                self._jobs.move_to_end(key)
            while len(self._jobs) > KEPT_JOBS:
                self._jobs.popitem(last=False)
            if entry.what == "moved":
                self._moves.append(entry)
            if self._file is not None:
                self._file.write(msgspec.json.encode(entry) + b"\n")
                self._file.flush()

    def of(self, namespace: str, job: str) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._jobs.get((namespace, job), ()))

    def latest(self, count: int) -> tuple[Entry, ...]:
        """The newest entry of each job; one that was made anew shows under its new name only."""
        with self._lock:
            newest = (entries[-1] for key, entries in reversed(self._jobs.items()) if entries[-1].job == key[1])
            return tuple(itertools.islice(newest, count))

    def moves(self, count: int) -> tuple[Entry, ...]:
        with self._lock:
            return tuple(self._moves)[: -count - 1 : -1]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
