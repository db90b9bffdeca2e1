"""The node planner on a real API server: pods that wait get machines, idle machines go, spot notices are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.adapters.kube.machines import CLAIMS, STOPPING, TEMPLATE, Machines
from dure.adapters.kube.names import RECLAIM_AT
from dure.adapters.kube.rest import Api
from dure.agent.nodes import NodeKeeper, PoolRules
from dure.cli.scale_nodes import read_pools
from dure.scale.nodes.budget import Budget
from dure.scale.nodes.state import NewNode, Pod, Pool
from lab.cluster import Cluster
from lab.crds import crd_files
from lab.fixtures import LabFactory
from lab.kueue import CRDS, established
from lab.rest import Json
from tests.kube.world import api_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/chat"
TEMPLATE_NOW = "v2"
POOLS = """
pools:
  - {name: gpu, types: [g5.xlarge, g5.12xlarge], zones: [lab-a], spot: 0.35, reclaims: 0.05}
"""


class Fleet:
    """A keeper that is made anew for every look, on a clock that is told."""

    def __init__(self, cluster: Cluster, api: Api, pools: tuple[Pool, ...]) -> None:
        self.cluster, self.pools, self.now_s = cluster, pools, 10_000.0
        offers = [offer for pool in pools for offer in pool.offers]
        self.machines = Machines(api, offers, "kwok", {"gpu": TEMPLATE_NOW})
        self.rules: dict[str, PoolRules] | None = None
        self.claims = Machines(api, offers, "karpenter")
        self.said: list[str] = []

    def turn(self) -> bool:
        self.now_s += 1.0
        keeper = NodeKeeper(self.machines, self.pools, rules=self.rules, tell=self.said.append)
        return keeper.turn(self.now_s)

    def nodes(self) -> dict[str, Json]:
        return {node["metadata"]["name"]: node for node in self.cluster.api.get("/api/v1/nodes")["items"]}

    def ready(self) -> int:
        return int(self.cluster.api.get(DEPLOYMENT).get("status", {}).get("readyReplicas", 0))

    def settle(self, replicas: int) -> None:
        until(lambda: not self.turn() and self.ready() == replicas, f"{replicas} replicas and nothing to do")


def deployment(replicas: int) -> Json:
    labels = {"app": "chat"}
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "2", "memory": "8Gi"}}
    container = {"name": "main", "image": "lab/none", "resources": resources}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def test_machines_come_for_pods_that_wait_and_go_when_they_idle(lab_factory: LabFactory, tmp_path: Path) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(POOLS)
    cluster = lab_factory(["test"])["test"]
    with api_of(cluster) as api:
        fleet = Fleet(cluster, api, read_pools(file))
        come_and_go(fleet)
        answer_a_notice(fleet)
        renew(fleet)
        claim_machines(fleet)


def come_and_go(fleet: Fleet) -> None:
    fleet.cluster.apply(deployment(6))
    until(lambda: bool(fleet.machines.fetch()[0]), "pods that wait")
    fleet.settle(6)
    many = len(fleet.nodes())
    assert 2 <= many <= 6
    fleet.cluster.api.patch(DEPLOYMENT, {"spec": {"replicas": 1}})
    until(lambda: sum(len(node.pods) for node in fleet.machines.fetch()[1]) == 1, "five pods less")
    fleet.settle(1)
    assert len(fleet.nodes()) == 1
    assert any("Empty" in line or "Underutilized" in line for line in fleet.said)


def answer_a_notice(fleet: Fleet) -> None:
    (taken,) = fleet.nodes()
    at_s = str(fleet.now_s + 120.0)
    fleet.cluster.api.patch(f"/api/v1/nodes/{taken}", {"metadata": {"annotations": {RECLAIM_AT: at_s}}})
    fleet.turn()
    nodes = fleet.nodes()
    assert nodes[taken]["spec"]["unschedulable"] is True
    assert nodes[taken]["metadata"]["annotations"][STOPPING] == "Reclaimed"
    assert len(nodes) == 2, "the replacement starts in the same turn"
    assert fleet.ready() == 1, "and its pod still answers"
    fleet.now_s += 60.0
    fleet.settle(1)
    assert taken not in fleet.nodes()


def renew(fleet: Fleet) -> None:
    """A node of an earlier template is replaced by one of today's; the pod is served meanwhile."""
    (old,) = fleet.nodes()
    fleet.cluster.api.patch(f"/api/v1/nodes/{old}", {"metadata": {"labels": {TEMPLATE: "earlier"}}})
    fleet.rules = {"gpu": PoolRules((Budget("100%"),), template=TEMPLATE_NOW)}
    until(lambda: not fleet.turn() and old not in fleet.nodes() and fleet.ready() == 1, "a node of today's template")
    (new,) = fleet.nodes().values()
    assert new["metadata"]["labels"][TEMPLATE] == TEMPLATE_NOW
    assert any(f"stops {old}: Drifted" in line for line in fleet.said)
    fleet.rules = None


def claim_machines(fleet: Fleet) -> None:
    """Where Karpenter is installed a machine is a NodeClaim that its schema accepts, made once for one wish."""
    files = [path for path in crd_files() if path.name.startswith("karpenter.sh_")]
    fleet.cluster.kubectl("apply", "--server-side", *(argument for path in files for argument in ("-f", str(path))))
    names = {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh"}
    fleet.cluster.api.until(CRDS, lambda crds: names <= established(crds), what="Karpenter's definitions")
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {
        "nodeClassRef": reference,
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "expireAfter": "720h",
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"template": {"metadata": {"labels": {"team": "search"}}, "spec": spec}},
    }
    fleet.cluster.apply(pool)
    offer = next(offer for offer in fleet.pools[0].offers if offer.capacity == "spot")
    new = NewNode("gpu", offer, (Pod("default/chat-1", (1000, 2000, 8192)),))
    first = fleet.claims.start(new)
    assert fleet.claims.start(new) == first
    (claim,) = fleet.cluster.api.get(CLAIMS)["items"]
    wanted = {one["key"]: one["values"] for one in claim["spec"]["requirements"]}
    assert wanted["node.kubernetes.io/instance-type"] == [offer.type_name]
    assert wanted["karpenter.sh/capacity-type"] == ["spot"]
    assert wanted["kubernetes.io/arch"] == ["amd64"]
    assert claim["metadata"]["labels"] == {"karpenter.sh/nodepool": "gpu", "team": "search"}
    assert claim["spec"]["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert fleet.claims.booting() == 1
    assert fleet.claims.start(new, instead_of=first) != first, "the machine that goes was made for the same pods"
    assert fleet.claims.booting() == 2
