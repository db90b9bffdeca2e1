"""Who holds which part of which device, and whether anything is given twice. Shares no code with the scheduler.

Asked about pods of real clusters (`tests.kube.checker`) and of imitated ones (`tests.chaos.member`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# A whole device counts as eight slots, which is as fine as any device is cut.
WHOLE = 8


class Holding(NamedTuple):
    """One pod's part of one device: all of it, or `slots` from `start` on."""

    device: str
    pod: str
    mode: str
    start: int = 0
    slots: int = 0


def given_twice(holdings: Iterable[Holding]) -> list[str]:
    found = []
    holder: dict[tuple[str, int], str] = {}
    for one in holdings:
        for slot in range(WHOLE) if one.mode == "exclusive" else range(one.start, one.start + one.slots):
            if (one.device, slot) in holder:
                found.append(f"{one.device}: {holder[one.device, slot]} and {one.pod}")
            holder[one.device, slot] = one.pod
    return found
