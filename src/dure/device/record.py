"""What a device did lately: requests answered, squads run, the timeline of segments, weights over time.

Rings of fixed size in memory; the executor writes, the server and the dashboard read copies. Times are ms since the
daemon's start.
"""

from __future__ import annotations

import threading
from collections import deque

import msgspec

from dure.share.promise import Answered

KEEP = 2000
KEEP_WEIGHTS = 240


class Span(msgspec.Struct, frozen=True):
    """Segments `first` to `last` of a request ran from `start_ms` to `end_ms` with this part of the device.

    `used_ms` is what of that was time on the device: not the way to it, nor what other programs took.
    """

    tenant: str
    request: int
    first: int
    last: int
    start_ms: float
    end_ms: float
    share: float
    squad: int
    used_ms: float = 0.0


class Bubble(msgspec.Struct, frozen=True):
    """This part of the device was idle although somebody had work for it."""

    start_ms: float
    end_ms: float
    share: float


class SquadRun(msgspec.Struct, frozen=True):
    number: int
    at_ms: float
    policy: str
    members: tuple[tuple[str, int, int], ...]
    """Tenant, segments, threads."""
    predicted_ms: float


class WeightPoint(msgspec.Struct, frozen=True):
    at_ms: float
    weights: dict[str, float]
    policy: str


class Record:
    """Thread safe: one writer, many readers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: deque[Span] = deque(maxlen=KEEP)
        self._bubbles: deque[Bubble] = deque(maxlen=KEEP)
        self._squads: deque[SquadRun] = deque(maxlen=KEEP)
        self._weights: deque[WeightPoint] = deque(maxlen=KEEP_WEIGHTS)
        self._answers: dict[str, deque[Answered]] = {}

    def add_span(self, span: Span) -> None:
        with self._lock:
            self._spans.append(span)

    def add_bubble(self, bubble: Bubble) -> None:
        with self._lock:
            self._bubbles.append(bubble)

    def add_squad(self, squad: SquadRun) -> None:
        with self._lock:
            self._squads.append(squad)

    def add_weights(self, point: WeightPoint) -> None:
        with self._lock:
            self._weights.append(point)

    def add_answer(self, tenant: str, answer: Answered) -> None:
        with self._lock:
            self._answers.setdefault(tenant, deque(maxlen=KEEP)).append(answer)

    def answers(self, tenant: str, since_ms: float) -> list[Answered]:
        with self._lock:
            return [a for a in self._answers.get(tenant, ()) if a.at_ms >= since_ms]

    def squads(self, after: int = 0) -> list[SquadRun]:
        with self._lock:
            return [s for s in self._squads if s.number > after]

    def timeline(
        self, since_ms: float
    ) -> tuple[tuple[Span, ...], tuple[Bubble, ...], tuple[SquadRun, ...], tuple[WeightPoint, ...]]:
        """Spans, bubbles and squads since then; weights of the whole time that is kept."""
        with self._lock:
            return (
                tuple(s for s in self._spans if s.end_ms >= since_ms),
                tuple(b for b in self._bubbles if b.end_ms >= since_ms),
                tuple(s for s in self._squads if s.at_ms >= since_ms),
                tuple(self._weights),
            )
