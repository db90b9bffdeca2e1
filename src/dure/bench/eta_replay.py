"""Recorded jobs through a first-come queue, with a forecast for each before its outcome is known.

Nobody gave estimates with these traces: the median of the last jobs of the same group stands for one. Every job is
forecast when it comes (start, if it has to wait, and finish), and running ones now and then for what is left.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from dure.model.eta import Range
from dure.place.eta import KEPT, Coming, Going, etas, fresh_book, ratios_of
from dure.place.instance import Floats

_OF_GROUP = 40
_FIRST_S = 1800.0
# In a longer queue than this nobody is forecast: the stretch is overloaded.
_LOOKED_AT = 500


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
        self._jobs, self._devices = jobs, devices
        self._random = np.random.default_rng([seed, 0xE7A])
        self._ratios: deque[float] = deque(maxlen=KEPT)
        self._past: dict[str, deque[float]] = {}
        self._book = fresh_book()
        self._said: dict[int, list[tuple[str, Range, float]]] = {}
        self._estimate: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._free = devices
        self._until: list[tuple[float, int, str, Range, float]] = []
        self._ends: list[tuple[float, int]] = []
        self._queue: deque[int] = deque()

    def run(self) -> Iterator[Forecast]:
        """Each forecast once its outcome is known."""
        for number, job in enumerate(self._jobs):
            while self._ends and self._ends[0][0] <= job.at_s:
                yield from self._finish(*heapq.heappop(self._ends))
            self._note_overdue(job.at_s)
            self._estimate[number] = self._estimated(job.group)
            self._queue.append(number)
            waits = self._queue[0] != number or self._free < job.devices
            if waits:
                if len(self._queue) <= _LOOKED_AT:
                    self._forecast(number, job.at_s, waits=True)
                self._start(job.at_s)
            else:
                self._start(job.at_s)
                self._forecast(number, job.at_s, waits=False)
            if self._began and number % 3 == 0:
                running = sorted(self._began)
                self._look_at(running[int(self._random.integers(len(running)))], job.at_s)
        while self._ends:
            yield from self._finish(*heapq.heappop(self._ends))

    def _note_overdue(self, now_s: float) -> None:
        """Ranges that have failed by now although the job still waits or runs."""
        while self._until and self._until[0][0] < now_s:
            _, number, kind, said, asked_s = heapq.heappop(self._until)
            if number in self._said and (kind != "start" or number not in self._began):
                getattr(self._book, kind).overdue(said, asked_s, now_s)

    def _tell(self, number: int, kind: str, said: Range, now_s: float) -> None:
        self._said.setdefault(number, []).append((kind, said, now_s))
        heapq.heappush(self._until, (said.highest_s, number, kind, said, now_s))

    def _forecast(self, number: int, now_s: float, *, waits: bool) -> None:
        running = [
            Going(str(one), self._estimate[one], now_s - began, self._jobs[one].devices)
            for one, began in self._began.items()
        ]
        waiting = [Coming(str(one), self._estimate[one], self._jobs[one].devices) for one in self._queue]
        found = etas(running, waiting, {"": self._devices}, self._known(), now_s, self._book)
        eta = found.get(str(number))
        if eta is not None:
            self._tell(number, "finish" if waits else "running", eta.finish, now_s)
            if waits:
                self._tell(number, "start", eta.start, now_s)

    def _look_at(self, number: int, now_s: float) -> None:
        going = Going(str(number), self._estimate[number], now_s - self._began[number], self._jobs[number].devices)
        found = etas([going], [], {"": self._devices}, self._known(), now_s, self._book)
        self._tell(number, "running", found[str(number)].finish, now_s)

    def _known(self) -> Floats:
        return ratios_of(list(self._ratios))

    def _estimated(self, group: str) -> float:
        past = self._past.get(group)
        return float(np.median(past)) if past else _FIRST_S

    def _start(self, now_s: float) -> None:
        while self._queue and self._jobs[self._queue[0]].devices <= self._free:
            number = self._queue.popleft()
            job = self._jobs[number]
            self._free -= job.devices
            self._began[number] = now_s
            for kind, said, asked_s in self._said.get(number, []):
                if kind == "start":
                    self._book.start.add(said, now_s, asked_s)
            heapq.heappush(self._ends, (now_s + job.length_s, number))

    def _finish(self, end_s: float, number: int) -> Iterator[Forecast]:
        job, began_s = self._jobs[number], self._began.pop(number)
        self._free += job.devices
        self._ratios.append(job.length_s / max(self._estimate[number], 1.0))
        self._past.setdefault(job.group, deque(maxlen=_OF_GROUP)).append(job.length_s)
        for kind, said, now_s in self._said.pop(number, []):
            came_s = began_s if kind == "start" else end_s
            if kind != "start":
                getattr(self._book, kind).add(said, came_s, now_s)
            yield Forecast(kind, said, came_s)
        self._start(end_s)
