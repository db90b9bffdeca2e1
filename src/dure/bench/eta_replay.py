"""Recorded jobs through a first-come queue, with a forecast for each before its outcome is known.

Nobody gave estimates with these traces: the median of the last jobs of the same group stands for one. Every job is
forecast when it comes (start, if it has to wait, and finish), and running ones now and then for what is left.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec
import numpy as np

from dure.model.eta import Range
from dure.place.calibrate import Regimes, Said
from dure.place.eta import Coming, Going, Learned, Situation, foreseen, fresh_book, learned, said_of
from dure.place.queue_play import compiled
from dure.place.trust import Past

_OF_GROUP = 40
_FIRST_S = 1800.0
_REMEMBERED = 2000
# After so many arrivals it is learned anew how long work takes; those that ended since are few among so many.
_RELEARNED = 20


class Trace(msgspec.Struct, frozen=True):
    """One recorded job."""

    at_s: float
    length_s: float
    devices: int
    group: str


class Forecast(msgspec.Struct, frozen=True):
    """What was said, and what came. `kind` is start, finish or running."""

    kind: str
    said: Range
    came_s: float


class Replay:
    def __init__(self, jobs: Sequence[Trace], devices: int, seed: int) -> None:
        self._jobs, self._devices, self._seed = jobs, devices, seed
        self._random = np.random.default_rng([seed, 0xE7A])
        self._ended: deque[Past] = deque(maxlen=_REMEMBERED)
        self._past: dict[str, deque[float]] = {}
        self._book = fresh_book()
        self._said: dict[int, list[tuple[str, Said]]] = {}
        self._learned: Learned | None = None
        self._estimate: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._free = devices
        self._until: list[tuple[float, int, int, str, Said]] = []
        self._turn = count()
        self._ends: list[tuple[float, int]] = []
        self._queue: deque[int] = deque()
        compiled()

    def run(self) -> Iterator[Forecast]:
        """Each forecast once its outcome is known."""
        for number, job in enumerate(self._jobs):
            while self._ends and self._ends[0][0] <= job.at_s:
                yield from self._finish(*heapq.heappop(self._ends))
            self._note_overdue(job.at_s)
            self._estimate[number] = self._estimated(job.group)
            self._queue.append(number)
            waits = self._queue[0] != number or self._free < job.devices
            if not waits:
                yield from self._start(job.at_s)
            self._forecast(number, job.at_s, waits=waits)
        while self._ends:
            yield from self._finish(*heapq.heappop(self._ends))

    def _note_overdue(self, now_s: float) -> None:
        """Ranges that have failed by now although the job still waits or runs."""
        while self._until and self._until[0][0] < now_s:
            _, _, number, kind, said = heapq.heappop(self._until)
            if number in self._said and (kind != "start" or number not in self._began):
                self._scores(kind).overdue(said)

    def _forecast(self, number: int, now_s: float, *, waits: bool) -> None:
        """Of the newcomer, and every third time of one who runs."""
        running = [
            Going(str(one), self._estimate[one], now_s - began, self._jobs[one].devices, group=self._jobs[one].group)
            for one, began in self._began.items()
        ]
        waiting = [
            Coming(str(one), self._estimate[one], self._jobs[one].devices, group=self._jobs[one].group)
            for one in self._queue
        ]
        situation = Situation(running, waiting, {"": self._devices}, now_s, strict=True)
        if self._learned is None or number % _RELEARNED == 0:
            self._learned = learned(situation, self._ended)
        found = foreseen(situation, self._learned, self._seed)
        start, finish = said_of(found[str(number)], now_s, self._book, waits=waits)
        if waits and start is not None:
            self._tell(number, "start", start)
        if finish is not None:
            self._tell(number, "finish" if waits else "running", finish)
        if self._began and number % 3 == 0:
            looked_at = sorted(self._began)[int(self._random.integers(len(self._began)))]
            again = said_of(found[str(looked_at)], now_s, self._book, waits=False)[1]
            if looked_at != number and again is not None:
                self._tell(looked_at, "running", again)

    def _tell(self, number: int, kind: str, said: Said) -> None:
        self._said.setdefault(number, []).append((kind, said))
        heapq.heappush(self._until, (said.range.highest_s, next(self._turn), number, kind, said))

    def _scores(self, kind: str) -> Regimes:
        return {"start": self._book.start, "finish": self._book.finish, "running": self._book.running}[kind]

    def _estimated(self, group: str) -> float:
        past = self._past.get(group)
        return float(np.median(past)) if past else _FIRST_S

    def _start(self, now_s: float) -> Iterator[Forecast]:
        while self._queue and self._jobs[self._queue[0]].devices <= self._free:
            number = self._queue.popleft()
            job = self._jobs[number]
            self._free -= job.devices
            self._began[number] = now_s
            yield from self._settle(number, ("start",), now_s)
            heapq.heappush(self._ends, (now_s + job.length_s, number))

    def _finish(self, end_s: float, number: int) -> Iterator[Forecast]:
        job = self._jobs[number]
        began_s = self._began.pop(number)
        self._free += job.devices
        estimate_s = max(self._estimate[number], 1.0)
        self._ended.append(Past(job.group, job.length_s / estimate_s, estimate_s, began_s))
        self._past.setdefault(job.group, deque(maxlen=_OF_GROUP)).append(job.length_s)
        yield from self._settle(number, ("finish", "running"), end_s)
        self._said.pop(number, None)
        yield from self._start(end_s)

    def _settle(self, number: int, kinds: tuple[str, ...], came_s: float) -> Iterator[Forecast]:
        for kind, said in self._said.get(number, []):
            if kind in kinds:
                self._scores(kind).add(said, came_s)
                yield Forecast(kind, said.range, came_s)
