"""An order of a queue in which its slots are done as evenly as can be found: first the longest, then exchanges.

Serving the longest first leaves a slot with one job too many where lengths are near each other (Graham: up to a third
above the least end). So from there jobs of the slot that ends last, one or two at once, are exchanged for shorter
ones of another as long as the last end comes forward (Finn and Horowitz, 1979). Served by the starts that come out
of it, a queue does just that. Called by `reroute` for what waits in one queue.
O(rounds x slots x lengths^2 x log lengths).
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Sequence

from dure.model.units import Instant, Seconds
from dure.route.situation import Order, Waiting

ROUNDS = 64
# Of more lengths than these in one slot only single jobs are exchanged: their number grows with the square.
PAIRED = 8
EPSILON_S = 1e-6
Slot = list[Waiting]
Sums = list[tuple[Seconds, tuple[Waiting, ...]]]


def levelled(free_s: Sequence[Instant], jobs: Iterable[Waiting]) -> tuple[Waiting, ...]:
    """The jobs in the order to serve them in; `free_s` is when each slot can begin."""
    slots: list[Slot] = [[] for _ in free_s]
    ends = list(free_s)
    heap = [(free, place) for place, free in enumerate(free_s)]
    heapq.heapify(heap)
    for job in sorted(jobs, key=Order.LONGEST_FIRST.rank):
        _, place = heap[0]
        slots[place].append(job)
        ends[place] += job.run_s
        heapq.heapreplace(heap, (ends[place], place))
    for _ in range(ROUNDS):
        if not _exchange(slots, ends):
            break
    return _by_start(free_s, slots)


def _exchange(slots: list[Slot], ends: list[Instant]) -> bool:
    """Bring the last end forward as far as one exchange can; False if none does."""
    last = max(range(len(slots)), key=lambda place: (ends[place], -place))
    for paired in (False, True):
        best: tuple[Instant, int, Sums] | None = None
        here = _sums(slots[last], paired)
        for place, slot in enumerate(slots):
            apart = ends[last] - ends[place]
            if place == last or apart <= EPSILON_S:
                continue
            found = _halving(here, _sums(slot, paired), apart)
            if found is None:
                continue
            given = found[0][0] - found[1][0]
            end = max(ends[last] - given, ends[place] + given)
            if best is None or end < best[0] - EPSILON_S:
                best = (end, place, found)
        if best is not None:
            _, place, (mine, theirs) = best
            _swap(slots, ends, last, place, mine[1], theirs[1])
            return True
    return False


def _halving(here: Sums, there: Sums, apart: Seconds) -> Sums | None:
    """What to give and what to take so that nearly half of the distance is given; nothing if that gains nothing."""
    lengths = [length for length, _ in there]
    best: Sums | None = None
    least = apart / 2 - EPSILON_S
    for given in here:
        at = bisect.bisect_left(lengths, given[0] - apart / 2)
        for taken in there[max(0, at - 1) : at + 1]:
            off = abs(given[0] - taken[0] - apart / 2)
            if off < least:
                best, least = [given, taken], off - EPSILON_S
    return best


def _sums(slot: Slot, paired: bool) -> Sums:
    """Nobody, each length once and, if few, each pair of lengths: who stands for them is the youngest."""
    newest = sorted(slot, key=lambda job: (job.run_s, -job.created_s))
    found: dict[Seconds, tuple[Waiting, ...]] = {0.0: ()}
    for job in newest:
        found.setdefault(job.run_s, (job,))
    if paired and len(found) <= PAIRED:
        for place, job in enumerate(newest):
            for other in newest[place + 1 :]:
                found.setdefault(job.run_s + other.run_s, (job, other))
    return sorted(found.items(), key=lambda one: one[0])


def _swap(
    slots: list[Slot], ends: list[Instant], here: int, there: int, given: Iterable[Waiting], taken: Iterable[Waiting]
) -> None:
    for source, target, moved in ((here, there, given), (there, here, taken)):
        for job in moved:
            slots[source].remove(job)
            slots[target].append(job)
            ends[source] -= job.run_s
            ends[target] += job.run_s


def _by_start(free_s: Sequence[Instant], slots: Sequence[Slot]) -> tuple[Waiting, ...]:
    """Within a slot the longest first: what is short fills the end better."""
    starts: list[tuple[Instant, int, Waiting]] = []
    for place, (free, slot) in enumerate(zip(free_s, slots, strict=True)):
        at = free
        for job in sorted(slot, key=Order.LONGEST_FIRST.rank):
            starts.append((at, place, job))
            at += job.run_s
    starts.sort(key=lambda one: (one[0], -one[2].run_s, one[2].created_s, one[1]))
    return tuple(job for _, _, job in starts)
