"""Who chooses first: priority, own quota before borrowed, then the smallest share for its weight."""

from __future__ import annotations

import pytest

from dure.model.tenant import Tenant, TenantUsage
from dure.place.fairness import Claim, dominant_share, fair_order, lendable

TOTAL = {"h100": 10_000, "t4": 4_000}


def claim(
    index: int, tenant: str, *, priority: int = 0, submitted_s: float = 0.0, milli: int = 1000, late: bool = False
) -> Claim:
    return Claim(index, f"w{index}", tenant, priority, submitted_s, "h100", milli, late)


def order(*claims: Claim, tenants: tuple[Tenant, ...] = (), usage: tuple[TenantUsage, ...] = ()) -> list[int]:
    return fair_order(claims, {one.name: one for one in tenants}, {one.tenant: one for one in usage}, TOTAL)


def test_priority_comes_before_share_and_age_before_name() -> None:
    held = TenantUsage("a", {"h100": 9000})
    assert order(claim(0, "b"), claim(1, "a", priority=5), usage=(held,)) == [1, 0]
    assert order(claim(0, "a", submitted_s=5.0), claim(1, "a", submitted_s=1.0)) == [1, 0]
    assert order(claim(1, "a"), claim(0, "a")) == [0, 1]


def test_tenants_take_turns_by_what_they_hold_for_their_weight() -> None:
    claims = [claim(at, "ab"[at // 4]) for at in range(8)]
    assert [claims[at].tenant for at in order(*claims)] == list("abababab")
    heavy = (Tenant("a", weight=3.0), Tenant("b", weight=1.0))
    first_four = [claims[at].tenant for at in order(*claims, tenants=heavy)][:4]
    assert sorted(first_four) == ["a", "a", "a", "b"]


def test_own_quota_comes_before_borrowed() -> None:
    tenants = (Tenant("a", quota={"h100": 1}), Tenant("b", quota={"h100": 8}))
    held = (TenantUsage("a", {"h100": 500}), TenantUsage("b", {"h100": 5000}))
    assert order(claim(0, "a"), claim(1, "b"), tenants=tenants, usage=held) == [1, 0]
    just = (Tenant("a", quota={"h100": 1}), Tenant("b", quota={"h100": 8}))
    assert order(claim(0, "a", milli=500), claim(1, "b"), tenants=just, usage=held) == [0, 1]


def test_the_dominant_share_is_the_largest_over_the_weight() -> None:
    assert dominant_share({"h100": 1000, "t4": 2000}, 2.0, TOTAL) == 0.25
    assert dominant_share({"gone": 1000}, 1.0, TOTAL) == 0.0
    assert dominant_share({}, 1.0, TOTAL) == 0.0


def test_a_borrower_may_hold_what_the_owners_do_not_want() -> None:
    own = Tenant("a", quota={"h100": 2}, borrow=True)
    other = Tenant("b", quota={"h100": 6})
    assert lendable(own, "h100", [(other, 1000)], 10_000) == 9_000
    assert lendable(own, "h100", [(other, 99_000)], 10_000) == 4_000
    assert lendable(own, "h100", [(other, 99_000)], 7_000) == 2_000, "its own quota stays its own"
    assert lendable(Tenant("a", quota={"h100": 2}, borrow=False), "h100", [], 10_000) == 2_000
    assert lendable(own, "t4", [], 10_000) is None


def test_what_was_let_in_counts_at_once_against_the_next_of_the_same_tenant() -> None:
    claims = [
        claim(0, "a", milli=3000),
        claim(1, "a"),
        claim(2, "b", submitted_s=5.0),
        claim(3, "b", submitted_s=6.0),
    ]
    assert order(*claims) == [0, 2, 3, 1], "b holds less than three devices after one and after two"
    own = (Tenant("a", quota={"h100": 1}), Tenant("b"))
    assert order(claim(0, "a"), claim(1, "a"), claim(2, "b", submitted_s=9.0), tenants=own) == [0, 2, 1]


def test_of_equal_shares_the_older_claim_goes_first_and_then_the_name() -> None:
    assert order(claim(0, "b", submitted_s=1.0), claim(1, "a", submitted_s=2.0)) == [0, 1]
    assert order(claim(1, "a"), claim(0, "b")) == [0, 1]


def test_a_weight_of_nothing_is_the_last_in_turn() -> None:
    assert dominant_share({"h100": 1000}, 0.0, TOTAL) == pytest.approx(1e8)
    assert dominant_share({"h100": 1000, "none": 5}, 1.0, {**TOTAL, "none": 0}) == 0.1


def test_one_whose_deadline_is_lost_lets_its_own_tenants_equals_go_first_and_nobody_else() -> None:
    lost = claim(0, "a", late=True)
    assert order(lost, claim(1, "a", submitted_s=5.0)) == [1, 0]
    assert order(lost, claim(1, "a", submitted_s=5.0, late=True)) == [0, 1], "of two late ones the older"
    urgent = claim(0, "a", late=True, priority=1)
    assert order(urgent, claim(1, "a", submitted_s=5.0)) == [0, 1]
    assert order(lost, claim(1, "b", submitted_s=5.0)) == [0, 1], "another tenant has a turn of its own"
