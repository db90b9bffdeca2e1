"""On whose behalf this thread or task writes; the store puts it into the audit log.

Set at the edges for as long as a request lasts. A context variable and not an argument of every call: a write that
forgot to hand it on would be a write without a name. Threads started by `asyncio.to_thread` inherit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dure.model.who import PLANE, Who

_acting: ContextVar[Who] = ContextVar("dure_acting", default=PLANE)


@contextmanager
def acting(who: Who) -> Iterator[None]:
    before = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(before)


def who_acts() -> Who:
    """The plane itself where nobody asked."""
    return _acting.get()
