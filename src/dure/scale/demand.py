"""What arrives at one service and what waits there, as GPU-seconds: the signal that every policy of ours is about.

Called by `serving` and `warm` with each interval of monitoring. The mean work of a request is learnt over as long as
the question is about: over hours where replicas boot for minutes, as mixes of requests come and go; over a minute
where machines change hands in seconds. A pure function of what it was shown. Cost: O(1).
"""

from __future__ import annotations

import math

import msgspec


class WorkModel(msgspec.Struct, frozen=True):
    """GPU-seconds of a request: prompt tokens, output tokens, a fixed part.

    By default what an engine computes; better what a token takes of what a replica carries within its promise
    (`sim.serving.profile.weights`): prompts weigh more there than they compute, as requests wait for them.
    """

    prefill_s: float = 0.00015
    decode_s: float = 0.00128
    request_s: float = 0.020


class Seen(msgspec.Struct, frozen=True):
    """One interval of monitoring: what arrived, what waits, what finished, how many replicas are asked for."""

    arrivals: int
    arrived_context: int
    waiting: int
    waiting_tokens: float
    finished: int
    finished_output: int
    target: int


class Meter:
    """Learns what a mean request is like, over `memory_s`; it is shown an interval every `step_s`."""

    def __init__(self, work: WorkModel, memory_s: float, step_s: float, mean_output: float = 200.0) -> None:
        self.work, self.keep = work, math.exp(-step_s / memory_s)
        self.context, self.output = _Mean(1000.0), _Mean(mean_output)

    def learn(self, seen: Seen) -> None:
        self.context.learn(seen.arrived_context, seen.arrivals, self.keep)
        self.output.learn(seen.finished_output, seen.finished, self.keep)

    @property
    def each_s(self) -> float:
        """GPU-seconds of a mean request, as far as is learnt."""
        return self.work.prefill_s * self.context.mean + self._tail_s

    def waiting_s(self, seen: Seen) -> float:
        """GPU-seconds of what waits."""
        return self.work.prefill_s * seen.waiting_tokens + self._tail_s * seen.waiting

    @property
    def _tail_s(self) -> float:
        return self.work.decode_s * self.output.mean + self.work.request_s


class _Mean:
    """A mean that forgets; starts at a guess worth a hundred samples, and stays as it is where nothing comes."""

    def __init__(self, guess: float) -> None:
        self.total, self.count = guess * 100.0, 100.0

    def learn(self, total: float, count: float, keep: float) -> None:
        if count > 0:
            self.total, self.count = self.total * keep + total, self.count * keep + count

    @property
    def mean(self) -> float:
        return self.total / self.count
