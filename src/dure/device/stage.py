"""Who runs on a device now, who was stopped in mid-piece for another, and who runs behind the others in the second
row, on what they leave. State of the executor's thread.

Whom to stop is decided before a squad is formed, but the processor is taken away only when the others' work is on its
way (`hold`): until then it would idle. On a GPU nobody is stopped: kernels that were sent run to their end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dure.adapters.pieces import Spot
from dure.device.lane import Lane
from dure.device.pace import Pace
from dure.device.request import Running
from dure.share.room import fit
from dure.share.squad import Member


class Stage:
    """`stopped` counts how often somebody was stopped."""

    def __init__(
        self, cores: int, lanes: Mapping[str, Lane], pace: Pace, now_ms: Callable[[], float], *, stops: bool = True
    ) -> None:
        self.running: dict[str, Running] = {}
        self.paused: dict[str, Running] = {}
        self.behind: dict[str, Running] = {}
        self.stopped = 0
        self._yielding: set[str] = set()
        self._cores = cores
        self._lanes = lanes
        self._pace = pace
        self._now_ms = now_ms
        self._stops = stops

    def free(self) -> int:
        """Threads that nobody holds."""
        return self._cores - sum(run.member.parts for run in self.running.values())

    def make_room(self, waiting: Mapping[str, int], inside: Mapping[str, int]) -> None:
        """Stop whoever is at work on a backlog while somebody with less inside, and time left, waits for a thread."""
        while self._stops and self.free() <= 0:
            name = self._pace.yields(waiting, {n: inside[n] for n in self.running})
            if name is None:
                return
            self._yield(name)

    def spot(self, member: Member) -> Spot:
        """Its place on a GPU beside those who run: maybe smaller than its part, if what is free is scattered."""
        held = [range(at.first, at.first + at.parts) for run in self.running.values() if (at := run.spot)]
        found = fit(held, member.parts, self._cores)
        return Spot(found.start, len(found), member.rank)

    def begin(self, name: str, run: Running, *, behind: bool = False) -> None:
        self._pace.begin(name)
        (self.behind if behind else self.running)[name] = run
        self._lanes[name].stand_behind(behind)

    def step_back(self, name: str) -> None:
        """Its threads are somebody else's now; it runs on behind them."""
        run = self.behind[name] = self.running.pop(name)
        run.since_ms = self._now_ms()
        self._lanes[name].stand_behind(True)
        self.stopped += 1

    def step_up(self, name: str) -> None:
        self._ended_behind(name)
        self._lanes[name].stand_behind(False)

    def heard(self, name: str) -> None:
        """It has something to say, so its piece has ended, wherever it was."""
        if name in self.paused:
            # It had ended before it was stopped.
            self.resume(name)
        if name in self.behind:
            self._ended_behind(name)

    def hold(self) -> None:
        """Stop the processes of those who yield."""
        for name in sorted(self._yielding):
            self._lanes[name].pause()
        self.stopped += len(self._yielding)
        self._yielding.clear()

    def resume(self, name: str) -> None:
        run = self.running[name] = self.paused.pop(name)
        now = self._now_ms()
        run.paused_ms += now - run.since_ms
        run.since_ms = now
        self._pace.begin(name)
        if name in self._yielding:
            self._yielding.discard(name)
        else:
            self._lanes[name].resume()

    def forget(self, name: str) -> None:
        """Its process failed what it ran, or ends; a stopped one that goes on must be able to hear of it."""
        self.heard(name)
        self.running.pop(name, None)

    def _yield(self, name: str) -> None:
        run = self.paused[name] = self.running.pop(name)
        self._yielding.add(name)
        now = self._now_ms()
        self._pace.pause(name, run.member.parts, now - run.since_ms)
        run.since_ms = now

    def _ended_behind(self, name: str) -> None:
        run = self.running[name] = self.behind.pop(name)
        now = self._now_ms()
        run.behind_ms += now - run.since_ms
        run.since_ms = now
