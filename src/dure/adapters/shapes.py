"""Makes every struct that is loaded ready to be read, in one thread and once.

msgspec learns how to read a struct when it first meets it, and shows what it has learned so far to other threads: two
that meet structs with a common part at the same moment may crash the process. So whatever starts threads, or is
handed to them, calls `settle` first; a type that was met is never learned again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec

_ONE_AT_A_TIME = threading.Lock()
_SETTLED: set[type[msgspec.Struct]] = set()


def settle() -> None:
    """All structs of Dure that are loaded by now; those that were settled before cost next to nothing."""
    with _ONE_AT_A_TIME:
        for kind in list(_below(msgspec.Struct)):
            if kind not in _SETTLED and kind.__module__.startswith("dure."):
                _SETTLED.add(kind)
                try:
                    msgspec.json.Decoder(kind)
                except (TypeError, NameError):
                    # Holds what no message does, an array or a function: nobody reads it.
                    continue


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
