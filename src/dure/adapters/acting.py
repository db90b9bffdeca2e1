"""On whose behalf this thread or task writes; the store puts it into the audit log.

Set at the edges for as long as a request lasts. A context variable and not an argument of every call: a write that
forgot to hand it on would be a write without a name. Threads started by `asyncio.to_thread` inherit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from dure.model.who import PLANE, Who


class Act(NamedTuple):
    """`doing` is the request, in the API's own words."""

    who: Who
    doing: str


_ALONE = Act(PLANE, "decide")
_acting: ContextVar[Act] = ContextVar("dure_acting", default=_ALONE)


@contextmanager
def acting(who: Who, doing: str) -> Iterator[None]:
    before = _acting.set(Act(who, doing))
    try:
        yield
    finally:
        _acting.reset(before)


def who_acts() -> Who:
    """The plane itself where nobody asked."""
    return _acting.get().who


def act() -> Act:
    return _acting.get()
