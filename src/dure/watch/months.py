"""Closed months of the ledger in few lines: what is left of hours that are cut off. Pure.

Hours, days and workloads are forgotten; pools, accounts, tenants and models stay, so every sum by those and by the
month is what it was, and both sides of the books still balance for every pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from dure.model.posting import Posting, added
from dure.model.units import HOUR_S, Instant


def month_hour(at_s: Instant) -> int:
    """The first hour of the month (UTC) that this moment lies in."""
    first = datetime.fromtimestamp(at_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp() // HOUR_S)


def opening(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    """One posting for each month and key, at the month's first hour, sorted by key. Twice is the same as once."""
    sums: dict[tuple[int, str, str, str, str, str, str], Posting] = {}
    starts: dict[int, int] = {}
    for one in postings:
        if one.hour not in starts:
            starts[one.hour] = month_hour(one.hour * HOUR_S)
        moved = Posting(
            starts[one.hour], one.cluster, one.pool, one.account, one.tenant, one.model, "",
            one.micros, one.carbon_mg, one.device_ms, one.energy_mwh, one.unknown_mwh,
        )  # fmt: skip
        known = sums.get(moved.key)
        sums[moved.key] = moved if known is None else added(known, moved)
    return tuple(sums[key] for key in sorted(sums))
