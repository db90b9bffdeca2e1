"""Isolation tiers on devices and nodes: who may be beside whom, for every pair of tiers of two tenants."""

from __future__ import annotations

import itertools

import pytest

from dure.model.accelerator import ShareMode
from dure.model.decision import Bind
from dure.model.tenant import Isolation
from dure.pack import pack
from tests.unit.pack.worlds import CATALOGUE, cluster, node, pod, running

PAIRS = list(itertools.product(Isolation, repeat=2))
MPS = (ShareMode.MPS,)
ALONE_ON_DEVICE = {Isolation.OWN_DEVICE, Isolation.OWN_NODE}
ALONE_ON_NODE = {Isolation.OWN_NODE}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_tenants_share_a_device_unless_one_of_them_has_its_own(first: Isolation, second: Isolation) -> None:
    only = node("a", 1)
    there = running([only], [pod("x", compute=200, memory=1000, share=MPS, tenant="one", isolation=first)])
    comes = pod("y", compute=200, memory=1000, share=MPS, tenant="two", isolation=second)
    [decision] = pack(cluster([only], [*there, comes]), CATALOGUE)
    assert isinstance(decision, Bind) == (not {first, second} & ALONE_ON_DEVICE)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_tenants_share_a_node_unless_one_of_them_has_its_own(first: Isolation, second: Isolation) -> None:
    only = node("a", 2)
    there = running([only], [pod("x", devices=1, tenant="one", isolation=first)])
    comes = pod("y", devices=1, tenant="two", isolation=second)
    [decision] = pack(cluster([only], [*there, comes]), CATALOGUE)
    assert isinstance(decision, Bind) == (not {first, second} & ALONE_ON_NODE)


@pytest.mark.parametrize("tier", Isolation)
def test_a_tenant_shares_with_itself_in_every_tier(tier: Isolation) -> None:
    only = node("a", 1)
    there = running([only], [pod("x", compute=200, memory=1000, share=MPS, tenant="one", isolation=tier)])
    comes = pod("y", compute=200, memory=1000, share=MPS, tenant="one", isolation=tier)
    [decision] = pack(cluster([only], [*there, comes]), CATALOGUE)
    assert isinstance(decision, Bind)
