"""Dividing SMs: the strict split of least makespan, and what becomes of SMs that a member no longer needs.

A member's time falls as its SMs grow, so the best split is found by bisection on the makespan: for a target time
each member needs its least number of partitions, and the target can be met if these sum to at most the device.
O(K log P log T) instead of all C(P-1, K-1) splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Duration = Callable[[int], float]
"""Predicted time of a member's kernels with this many partitions; must not grow with them."""

ROUNDS = 60
PRECISION = 1e-3
"""Makespans closer than this are the same: predictions are far less exact."""


def split(durations: Sequence[Duration], parts: int) -> tuple[int, ...]:
    """Partitions of each member, at least one each, that end the squad soonest. Left-over ones go to the slowest.

    Raises `ValueError` when there are more members than partitions.
    """
    if len(durations) > parts:
        raise ValueError(f"{len(durations)} members do not fit on {parts} partitions")
    if len(durations) == parts or len(durations) < 2:
        return (1,) * len(durations) if len(durations) == parts else (parts,) * len(durations)
    low = max((d(parts) for d in durations), default=0.0)
    high = max((d(1) for d in durations), default=0.0)
    best = tuple(_least(d, high, parts) or parts for d in durations)
    for _ in range(ROUNDS):
        if high - low <= PRECISION * high:
            break
        middle = (low + high) / 2.0
        wanted = [_least(d, middle, parts) for d in durations]
        if None not in wanted and sum(w for w in wanted if w is not None) <= parts:
            best = tuple(w for w in wanted if w is not None)
            high = middle
        else:
            low = middle
    return _spread(list(best), durations, parts)


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


def _least(duration: Duration, target: float, parts: int) -> int | None:
    """Fewest partitions that end by `target`; None if even all do not."""
    if duration(parts) > target:
        return None
    low, high = 1, parts
    while low < high:
        middle = (low + high) // 2
        if duration(middle) <= target:
            high = middle
        else:
            low = middle + 1
    return low


def _spread(chosen: list[int], durations: Sequence[Duration], parts: int) -> tuple[int, ...]:
    for _ in range(parts - sum(chosen)):
        slowest = max(range(len(chosen)), key=lambda i: (durations[i](chosen[i]), -i), default=None)
        if slowest is None:
            break
        chosen[slowest] += 1
    return tuple(chosen)
