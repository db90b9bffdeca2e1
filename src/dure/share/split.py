"""Dividing SMs: the strict split of least makespan, and what becomes of SMs that a member no longer needs.

A member's time falls as its SMs grow, so the best split is found by bisection on the makespan: for a target time
each member needs its least number of partitions, and the target can be met if these sum to at most the device. The
best makespan is one of the K P times that members can take, so bisecting those is exact: O(K P log K P) instead of
all C(P-1, K-1) splits.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence

Duration = Callable[[int], float]
"""Predicted time of a member's kernels with this many partitions; must not grow with them."""


def split(durations: Sequence[Duration], parts: int) -> tuple[int, ...]:
    """Partitions of each member, at least one each, that end the squad soonest. Left-over ones go to the slowest.

    Raises `ValueError` when there are more members than partitions.
    """
    if len(durations) > parts:
        raise ValueError(f"{len(durations)} members do not fit on {parts} partitions")
    if len(durations) == parts or len(durations) < 2:
        return (1,) * len(durations) if len(durations) == parts else (parts,) * len(durations)
    # Times are kept negated, hence rising, which is what bisection wants.
    tables = [[-duration(n) for n in range(1, parts + 1)] for duration in durations]
    targets = sorted({time for table in tables for time in table})
    low, high = 0, len(targets) - 1
    best = [1] * len(tables)
    while low <= high:
        middle = (low + high) // 2
        wanted = [bisect.bisect_left(table, targets[middle]) + 1 for table in tables]
        if max(wanted) <= parts and sum(wanted) <= parts:
            best, low = wanted, middle + 1
        else:
            high = middle - 1
    return _spread(best, tables, parts)


def freed(claims: Mapping[str, int], needs: Mapping[str, int], order: Sequence[str], total: int) -> dict[str, int]:
    """SMs of each member once nobody holds more than it needs: the rest goes at once down the order.

    Nobody falls below min(claim, need); the sum never exceeds `total`.
    """
    held = {name: min(claims.get(name, 0), needs[name]) for name in order}
    spare = total - sum(held.values())
    for name in order:
        more = min(needs[name] - held[name], spare)
        held[name] += max(0, more)
        spare -= max(0, more)
    return held


def _spread(chosen: list[int], tables: Sequence[Sequence[float]], parts: int) -> tuple[int, ...]:
    for _ in range(parts - sum(chosen)):
        slowest = min(range(len(chosen)), key=lambda i: (tables[i][chosen[i] - 1], i))
        chosen[slowest] += 1
    return tuple(chosen)
