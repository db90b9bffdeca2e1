"""Places in a queue as numbers: who is to be served first has the highest, 0 is behind everybody, first come.

A number is written on each job of a real queue, so as few as possible are changed: those that already stand in the
wanted order keep theirs, the others get one in between. O(n log n). Called by the sorter and the simulator.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

MOST = 999


def ranks(order: Sequence[str], now: Mapping[str, int]) -> dict[str, int]:
    """The rank of each job so that they are served in this order; equal ones would be served by age, so none are.

    An order longer than there are numbers keeps its first jobs in order and leaves the others first come.
    """
    names = list(order[:MOST])
    kept = _kept([now.get(name, 0) for name in names])
    found = dict.fromkeys(order[MOST:], 0)
    place = 0
    above = MOST + 1
    while place < len(names):
        end = place
        while end < len(names) and end not in kept:
            end += 1
        below = now[names[end]] if end < len(names) else 0
        gap = (above - below) / (end - place + 1)
        if end > place and gap < 1:
            return found | _spread(names)
        for number in range(place, end):
            found[names[number]] = above - int(gap * (number - place + 1))
        if end < len(names):
            found[names[end]] = above = below
        place = end + 1
    return found


def _kept(given: Sequence[int]) -> set[int]:
    """The places of the most numbers that fall already: a longest falling run, 0 counting as none."""
    tails: list[int] = []
    last: list[int] = []
    before: dict[int, int] = {}
    for place, rank in enumerate(given):
        if not 0 < rank <= MOST:
            continue
        at = bisect.bisect_left(tails, -rank)
        if at == len(tails):
            tails.append(-rank)
            last.append(place)
        else:
            tails[at], last[at] = -rank, place
        before[place] = last[at - 1] if at else -1
    kept, place = set(), last[-1] if last else -1
    while place >= 0:
        kept.add(place)
        place = before[place]
    return kept


def _spread(names: Sequence[str]) -> dict[str, int]:
    step = (MOST + 1) / (len(names) + 1)
    return {name: MOST + 1 - int(step * (number + 1)) for number, name in enumerate(names)}
