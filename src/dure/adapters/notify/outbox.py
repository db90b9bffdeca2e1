"""Letters that wait to be delivered, what was told, and what is silenced: one SQLite file in the state folder.

The notifier writes and drains it, `dure notify` reads it and adds silences, also while the other runs. Invariant:
what is told and the letter that tells it are written together, and a letter leaves only after its channel took it.
So a crash at any moment may tell twice, never not at all.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from dure.model.units import Instant, Seconds
from dure.watch.notices import Letter, Notice, Silence

_SCHEMA = """
create table if not exists letter (id integer primary key, channel text not null, body text not null,
                                   due_s real not null, since_s real not null, tries integer not null default 0,
                                   trouble text not null default '');
create table if not exists told (key text primary key, body text not null, at_s real not null);
create table if not exists silence (pattern text primary key, until_s real not null, why text not null);
"""


class Waiting(NamedTuple):
    """A letter for one channel: when it is tried next, since when it waits, how often it failed and why last."""

    number: int
    channel: str
    letter: Letter
    due_s: Instant
    since_s: Instant
    tries: int
    trouble: str


class Outbox:
    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
        self._db.executescript("pragma journal_mode=wal; pragma synchronous=full;" + _SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def told(self) -> dict[str, tuple[Notice, Instant]]:
        """What people know to stand, and when they were told last."""
        with self._lock:
            rows = self._db.execute("select key, body, at_s from told").fetchall()
        return {key: (msgspec.json.decode(body, type=Notice), at_s) for key, body, at_s in rows}

    def post(self, letters: Iterable[Letter], channels: Iterable[str], now_s: Instant) -> None:
        """Put letters in for every channel, and note what they tell, in one transaction."""
        names = tuple(channels)
        with self._transaction():
            for letter in letters:
                body = msgspec.json.encode(letter).decode()
                for name in names:
                    self._db.execute(
                        "insert into letter (channel, body, due_s, since_s) values (?, ?, ?, ?)",
                        (name, body, now_s, now_s),
                    )
                for notice in letter.notices:
                    if notice.over:
                        self._db.execute("delete from told where key = ?", (notice.key,))
                    else:
                        text = msgspec.json.encode(notice).decode()
                        self._db.execute("insert or replace into told values (?, ?, ?)", (notice.key, text, now_s))

    def forget(self, keys: Iterable[str]) -> None:
        """What is over and was never told, or is silenced: nobody waits for its end."""
        with self._transaction():
            self._db.executemany("delete from told where key = ?", [(key,) for key in keys])

    def waiting(self, until_s: Instant | None = None) -> tuple[Waiting, ...]:
        """Letters that are due, oldest first; all of them without a moment."""
        query = "select id, channel, body, due_s, since_s, tries, trouble from letter where due_s <= ? order by id"
        with self._lock:
            rows = self._db.execute(query, (1e18 if until_s is None else until_s,)).fetchall()
        return tuple(Waiting(row[0], row[1], msgspec.json.decode(row[2], type=Letter), *row[3:]) for row in rows)

    def delivered(self, number: int) -> None:
        with self._transaction():
            self._db.execute("delete from letter where id = ?", (number,))

    def failed(self, number: int, trouble: str, due_s: Instant) -> None:
        with self._transaction():
            self._db.execute(
                "update letter set tries = tries + 1, trouble = ?, due_s = ? where id = ?",
                (trouble[:300], due_s, number),
            )

    def silence(self, silence: Silence) -> None:
        with self._transaction():
            self._db.execute(
                "insert or replace into silence values (?, ?, ?)", (silence.pattern, silence.until_s, silence.why)
            )

    def end_silence(self, pattern: str) -> bool:
        with self._transaction():
            return self._db.execute("delete from silence where pattern = ?", (pattern,)).rowcount > 0

    def silences(self, now_s: Instant) -> tuple[Silence, ...]:
        with self._lock:
            query = "select pattern, until_s, why from silence where until_s > ? order by pattern"
            return tuple(Silence(*row) for row in self._db.execute(query, (now_s,)).fetchall())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")


def backoff_s(tries: int, first_s: Seconds = 5.0, longest_s: Seconds = 600.0) -> Seconds:
    """How long to wait after this many failures."""
    return min(longest_s, first_s * 2.0 ** min(tries, 20))
