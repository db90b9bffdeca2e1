"""Who may do what: roles for tenants, and tokens that stand for them."""

from __future__ import annotations

from msgspec.structs import replace

from dure.model.tenant import Role
from dure.model.token import Token
from dure.model.who import EVERY, PLANE, Who, agent

LOW, *_, HIGH = Role


def test_a_role_counts_for_its_tenant_alone_and_a_higher_one_includes_it() -> None:
    kim = Who("kim", {"vision": HIGH, "search": LOW})
    assert kim.may(LOW, "vision")
    assert kim.may(HIGH, "vision")
    assert kim.may(LOW, "search")
    assert not kim.may(HIGH, "search")
    assert not kim.may(LOW, "other")
    assert not kim.may(LOW), "the fleet is nobody's tenant"
    assert (kim.sees("search"), kim.sees("other")) == (True, False)
    assert (kim.tenants, kim.tenant, kim.role) == (frozenset({"vision", "search"}), "", HIGH)


def test_who_stands_above_tenants_sees_and_may_everywhere() -> None:
    assert PLANE.may(HIGH)
    assert PLANE.may(HIGH, "vision")
    assert PLANE.sees("vision")
    assert (PLANE.tenants, PLANE.tenant) == (None, "")


def test_who_belongs_to_one_tenant_and_who_to_none() -> None:
    assert Who("lee", {"search": LOW}).tenant == "search"
    robot = agent("seoul")
    assert (robot.tenants, robot.tenant, robot.role) == (frozenset(), "", None)
    assert not robot.may(LOW)
    assert robot.via == "agent:seoul"


def test_a_token_lives_until_it_expires_or_is_revoked() -> None:
    token = Token("1", "ci", LOW, EVERY, "digest", 0.0, "kim", expires_s=100.0)
    assert token.lives(99.0)
    assert not token.lives(100.0)
    assert not replace(token, revoked_s=5.0).lives(10.0)
    assert replace(token, expires_s=None).lives(1e12)
    assert token.who == Who("ci", {EVERY: LOW}, "token:1")
