"""Spot nodes of a real cluster: their notices, losses and returns are seen as spells, and outlive the agent."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from dure.adapters.kube.names import RECLAIM_AT
from dure.adapters.memory.store import MemoryStore
from dure.model.spell import NodeSpell, PoolSpells
from dure.model.tariff import Capacity
from dure.plane.adapting import Learned
from dure.plane.members import LocalPlane
from dure.plane.spells import Spells
from lab.fixtures import LabFactory
from tests.kube.world import install_crds, member_of, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SPOT = {"dure.dev/pool": "big", "karpenter.sh/capacity-type": "spot"}


def group(name: str) -> dict[str, object]:
    return {"group": name, "count": 1, "gpu": {"count": 8}, "labels": SPOT}


class Plane:
    """Keeps what it is told as the loop does."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.port = LocalPlane(self.store)
        self.spells = Spells(self.store)

    def known(self) -> PoolSpells:
        """Written in every look: the store is what a restart leaves."""
        reports, now_s = self.store.list_reports(), time.time()
        told = self.spells.told(Learned(), reports, now_s)
        self.store.commit([], settings=told.settings)
        return next(iter(self.spells.of(reports, now_s)), PoolSpells("", "", 0.0))

    def seen(self) -> tuple[NodeSpell, ...]:
        return self.known().spells


def test_a_spot_node_that_is_taken_back_and_another_that_comes_are_seen_as_spells(lab_factory: LabFactory) -> None:
    cluster = lab_factory(["test"], off={"test": {"kube-scheduler"}}, first=install_crds)["test"]
    cluster.add_nodes([group("first")])
    spec = spec_of(cluster, big="big")
    spec = replace(spec, pools=(replace(spec.pools[0], nodes=1, capacity=Capacity.SPOT),))
    plane = Plane()
    member = member_of(cluster, spec, plane.port)
    member.start()
    try:
        until(lambda: [one.end_s for one in plane.seen()] == [None], "the first node is up")
        first = plane.seen()[0].node
        at_s = str(time.time() + 120.0)
        cluster.api.patch(f"/api/v1/nodes/{first}", {"metadata": {"annotations": {RECLAIM_AT: at_s}}})
        until(lambda: [one.lost for one in plane.seen()] == [True], "its notice is a loss")
        cluster.api.delete(f"/api/v1/nodes/{first}")
        cluster.add_nodes([group("second")])
        until(lambda: len(plane.seen()) == 2, "another node comes")
    finally:
        member.stop()
    lost, second = plane.seen()
    assert (lost.node, lost.lost, second.end_s) == (first, True, None)
    assert lost.end_s is not None
    assert lost.begin_s < lost.end_s < second.begin_s
    again = member_of(cluster, spec, plane.port)
    again.start()
    try:
        since_s = plane.known().since_s
        cluster.api.delete(f"/api/v1/nodes/{second.node}")
        until(lambda: all(one.end_s is not None for one in plane.seen()), "the new agent sees it go")
        kept, gone = plane.seen()
        assert plane.known().since_s == since_s
        assert (kept, gone.begin_s) == (lost, second.begin_s), "what the first agent saw is still known"
    finally:
        again.stop()
