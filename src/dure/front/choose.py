"""Which backend gets the next request, and which waiting request goes next. Pure.

Called by `proxy` under its lock. Token-aware routing sends a request to the backend with the least outstanding work,
estimated from prompt length and a learnt output length; deadline-aware order lets requests that can still meet their
first-token promise go before those that cannot, so one overload does not make everybody late.
"""

from __future__ import annotations

import msgspec


class Work(msgspec.Struct, frozen=True):
    """Seconds of one backend: for each prompt token, each output token, each request."""

    prefill_s: float = 0.00015
    decode_s: float = 0.00128
    request_s: float = 0.020


class Backend(msgspec.Struct):
    """A replica behind the front; `draining` ones get nothing new."""

    url: str
    limit: int
    active: int = 0
    work_s: float = 0.0
    draining: bool = False


class Waiting(msgspec.Struct, frozen=True):
    """A request that no backend had room for."""

    number: int
    arrived_s: float
    work_s: float
    tokens: int = 0


def prompt_tokens(body: bytes) -> int:
    """A cheap estimate: four bytes of the request body are about one token."""
    return max(1, len(body) // 4)


def work_of(body: bytes, mean_output: float, work: Work) -> float:
    """Expected seconds of a backend for this request."""
    return work.prefill_s * prompt_tokens(body) + work.decode_s * mean_output + work.request_s


def pick(backends: list[Backend]) -> Backend | None:
    """The open backend with the least outstanding work; None when all are full or draining."""
    free = [backend for backend in backends if not backend.draining and backend.active < backend.limit]
    return min(free, key=lambda backend: (backend.work_s, backend.url), default=None)


def next_waiting(waiting: list[Waiting], now_s: float, ttft_s: float) -> Waiting | None:
    """On-time requests in order of arrival, then the late ones in order of arrival."""
    return min(waiting, key=lambda request: (now_s - request.arrived_s > ttft_s, request.number), default=None)
