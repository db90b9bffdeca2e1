"""One tenant's own past by the hour, out of the ledger: what a forecast of it follows from. Pure.

The ledger has no gaps: time that nobody watched is posted afterwards. So an hour without a posting of the tenant is
one in which it used nothing; but what lies before its first posting is no past of its own, and is not told as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dure.model.posting import Posting

FIGURES: dict[str, Callable[[Posting], float]] = {
    "cost": lambda one: float(one.micros),
    "carbon": lambda one: one.carbon_mg / 1000,
    "used": lambda one: one.device_hours,
}


def hourly(postings: Iterable[Posting], until_hour: int, figure: str) -> tuple[int, list[float]]:
    """The hour of the first posting and one value for each hour from there to before `until_hour`."""
    worth = FIGURES[figure]
    sums: dict[int, float] = {}
    for one in postings:
        if one.hour < until_hour:
            sums[one.hour] = sums.get(one.hour, 0.0) + worth(one)
    first = min(sums, default=until_hour)
    return first, [sums.get(hour, 0.0) for hour in range(first, until_hour)]
