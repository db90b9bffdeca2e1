"""Closed months of the ledger in few lines: every sum by month, pool, account, tenant and model stays."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dure.model.posting import Account, Posting
from dure.model.units import HOUR_S
from dure.watch.books import imbalances
from dure.watch.months import month_hour, opening

FIRST = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() // HOUR_S)
AMOUNTS = st.integers(0, 10**12)


@st.composite
def hours(draw: st.DrawFn) -> list[Posting]:
    """One hour of a pool, both sides."""
    hour, pool = FIRST + draw(st.integers(0, 24 * 100)), draw(st.sampled_from("ab"))
    sides = draw(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("mn"), AMOUNTS), max_size=4))
    used = [
        Posting(hour, "seoul", pool, Account.USED, tenant, model, f"job-{number}", micros, micros // 7, 5, 3, 1)
        for number, (tenant, model, micros) in enumerate(sides)
    ]
    total, carbon = sum(one.micros for one in used), sum(one.carbon_mg for one in used)
    idle = Posting(hour, "seoul", pool, Account.IDLE, micros=draw(AMOUNTS))
    paid = Posting(hour, "seoul", pool, Account.PAID, micros=total + idle.micros, carbon_mg=carbon)
    return [paid, idle, *used]


def billed(postings: list[Posting]) -> dict[tuple[object, ...], int]:
    sums = Counter[tuple[object, ...]]()
    for one in postings:
        key = (month_hour(one.hour * HOUR_S), one.cluster, one.pool, one.account, one.tenant, one.model)
        for field in ("micros", "carbon_mg", "device_ms", "energy_mwh", "unknown_mwh"):
            sums[(*key, field)] += getattr(one, field)
    return {key: amount for key, amount in sums.items() if amount}


@given(st.lists(hours(), max_size=6))
def test_bills_of_closed_months_stay_and_the_books_still_balance(found: list[list[Posting]]) -> None:
    postings = [one for hour in found for one in hour]
    made = list(opening(postings))
    assert billed(made) == billed(postings)
    assert not imbalances(made)
    assert list(opening(made)) == made
    assert list(opening(list(reversed(postings)))) == made


def test_a_month_begins_at_midnight_of_its_first_day() -> None:
    inside = datetime(2026, 2, 28, 23, 59, tzinfo=UTC).timestamp()
    assert month_hour(inside) * HOUR_S == datetime(2026, 2, 1, tzinfo=UTC).timestamp()
    assert month_hour(FIRST * HOUR_S) == FIRST
