"""Which backend gets the next request, and which waiting request goes next. Pure.

Called by `proxy` between two turns of its loop. Token-aware routing sends a request to the backend with the least
outstanding work, estimated from prompt length and a learnt output length. A backend is given only as many prompts as
it computes in a moment: what waits, waits here, where its order can still be chosen. Under overload somebody is late;
the order is such that the fewest are, so the longest prompts stand aside first (Moore 1968).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec

# Of what was learnt of the pace, after each further prompt; and how far off an estimate may be.
REMEMBERED, MOST_OFF = 0.99, 20.0


class Work(msgspec.Struct, frozen=True):
    """Seconds of one backend: for each prompt token, each output token, each request."""

    prefill_s: float = 0.00015
    decode_s: float = 0.00128
    request_s: float = 0.020


class Backend(msgspec.Struct):
    """A replica behind the front; `draining` ones get nothing new. `prompts_s` is expected of those prompts that it
    was given and has not answered with a first token, as far as that will be seen."""

    url: str
    limit: int
    active: int = 0
    work_s: float = 0.0
    prompts_s: float = 0.0
    draining: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A request that no backend had room for; `prompt_s` of its `work_s` are for its prompt. If it `streams`, its
    first token will be seen."""

    number: int
    arrived_s: float
    work_s: float
    prompt_s: float = 0.0
    tokens: int = 0
    streams: bool = False


class Pace:
    """By how much longer prompts take than is expected of them; learnt from those whose first token was seen."""

    def __init__(self) -> None:
        self._expected_s = self._took_s = 1.0

    def learn(self, expected_s: float, took_s: float) -> None:
        self._expected_s = self._expected_s * REMEMBERED + expected_s
        self._took_s = self._took_s * REMEMBERED + took_s

    @property
    def value(self) -> float:
        return min(max(self._took_s / self._expected_s, 1.0 / MOST_OFF), MOST_OFF)


class Lanes(msgspec.Struct, frozen=True):
    """How fast prompts are computed: so many at once, each in `pace` times what is expected of it."""

    count: int = 1
    pace: float = 1.0


def prompt_tokens(body: bytes) -> int:
    """A cheap estimate: four bytes of the request body are about one token."""
    return max(1, len(body) // 4)


def work_of(tokens: int, mean_output: float, work: Work) -> float:
    """Expected seconds of a backend for a request with so long a prompt."""
    return work.prefill_s * tokens + work.decode_s * mean_output + work.request_s


def pick(backends: list[Backend], ahead_s: float) -> Backend | None:
    """The open backend with the least outstanding work; None when all are full, draining or have prompts for more
    than `ahead_s`."""
    free = [
        backend
        for backend in backends
        if not backend.draining and backend.active < backend.limit and backend.prompts_s <= ahead_s
    ]
    return min(free, key=lambda backend: (backend.work_s, backend.url), default=None)


def next_waiting(waiting: list[Waiting], now_s: float, ttft_s: float, lanes: Lanes) -> Waiting | None:
    """The first of those who can be in time together; when nobody can be any more, who came first."""
    able = in_time(waiting, now_s, ttft_s, lanes)
    return min(able or waiting, key=lambda request: request.number, default=None)


def in_time(waiting: Iterable[Waiting], now_s: float, ttft_s: float, lanes: Lanes) -> list[Waiting]:
    """As many as can have their first token in time, by rising number; the most there can be with one lane.

    In order of their deadlines, which is that of their arrival; where one would be late, the longest prompt so far
    stands aside. O(n log n) in those who are not late already, which came within the last `ttft_s`.
    """
    kept: list[tuple[float, int, Waiting]] = []
    busy_s = 0.0
    for request in sorted(waiting, key=lambda one: one.number):
        own_s, left_s = request.prompt_s * lanes.pace, request.arrived_s + ttft_s - now_s
        if own_s > left_s:
            continue
        heapq.heappush(kept, (-own_s, -request.number, request))
        if busy_s / lanes.count + own_s > left_s:
            longest_s, _, _ = heapq.heappop(kept)
            busy_s += longest_s
        busy_s += own_s
    return sorted((request for _, _, request in kept), key=lambda one: one.number)
