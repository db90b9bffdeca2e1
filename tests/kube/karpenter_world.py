"""The same pods for the real Karpenter and for Dure's node planner, on two clusters of one lab.

    python -m tests.kube.karpenter_world --seeds 2,3,4 --pods 60       about five minutes for each seed

Used by the Karpenter tests. Both may buy the same types at the same prices; both lose to the kubelet what Karpenter's
KWOK provider takes. Karpenter acts by itself; Dure's keeper is turned until it has nothing left to do. The price of
either is read from the nodes that stand in the cluster, after the real scheduler has bound every pod.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch

import msgspec

from dure.adapters.kube.machines import CLASS, GPU, Machines
from dure.adapters.kube.rest import Api
from dure.agent.nodes import NodeKeeper
from dure.files.builtin import instances
from dure.model.errors import Temporary
from dure.scale.nodes.consolidate import Settings, consolidate
from dure.scale.nodes.state import Node, Offer, Pool
from lab.cluster import Cluster
from lab.errors import LabError
from lab.karpenter import (
    CAPACITY_TYPE,
    RESERVED,
    ZONE,
    Karpenter,
    instance_type,
    node_class,
    node_class_reference,
    offer,
)
from lab.lab import Lab
from lab.progress import say
from lab.rest import Json
from tests.kube.world import api_of

LAB_ZONE = "lab-a"
NAME = "gpu"
TYPES = ("g5.*", "g6.*", "p4d.24xlarge")
# Consolidation looks every 10 s and checks a plan again after 15: no change for that long is the end of it.
CALM_S = 75.0
PATIENCE_S = 600.0
Shapes = Mapping[tuple[int, int, int, str], int]


class Side(msgspec.Struct, frozen=True):
    """What one planner has standing: dollars an hour, nodes, pods bound."""

    usd_per_h: float
    nodes: int
    bound: int


class Row(msgspec.Struct, frozen=True):
    """One mix of pods: what Dure planned, what stood first, and what was left after half of the pods had gone."""

    seed: int
    pods: int
    planned: float
    karpenter: Side
    dure: Side
    karpenter_then: Side
    dure_then: Side
    dure_would_still_save: float


class Arena:
    """Karpenter's cluster, Dure's cluster, and what both are given."""

    def __init__(self, karpenters: Cluster, ours: Cluster, apis: tuple[Api, Api], pool: Pool) -> None:
        self.karpenters, self.ours, self.pool = karpenters, ours, pool
        self._reads = Machines(apis[0], pool.offers, "karpenter")
        self._machines = Machines(apis[1], pool.offers, "kwok")
        self._keeper = NodeKeeper(self._machines, (pool,))

    def give(self, shapes: Shapes) -> int:
        """The same Deployments to both; answers how many pods that is."""
        objects = [deployment(shape, count) for shape, count in shapes.items()]
        for cluster in (self.karpenters, self.ours):
            cluster.apply(*objects)
        return sum(shapes.values())

    def planned(self, pods: int) -> float:
        """What Dure would buy for these pods before anything stands, in dollars an hour; all of them have a place."""
        self.ours.api.until("/api/v1/pods", lambda found: len(found["items"]) == pods, what="the pods")
        bought = self._keeper.look(time.time()).provision.bought
        assert bought.unplaced == ()
        assert sum(len(node.pods) for node in bought.nodes) == pods
        return bought.price / 1e6

    def karpenter_settles(self, pods: int, *, calm_s: float = 0.0) -> Side:
        """Until every pod is bound and, for `calm_s`, no node came or went."""
        last, since = Side(0.0, 0, 0), time.monotonic()

        def settled() -> Side | None:
            nonlocal last, since
            waiting, nodes = self._reads.fetch()
            now = side(nodes)
            if now != last:
                last, since = now, time.monotonic()
            done = not waiting and now.bound == pods and not any(node.deleting for node in nodes)
            return now if done and time.monotonic() - since >= calm_s else None

        return _when(settled, f"Karpenter with {pods} pods", PATIENCE_S + 10 * calm_s)

    def ours_settles(self, pods: int) -> Side:
        """Turn the keeper until every pod is bound and there is nothing left to do."""

        def settled() -> Side | None:
            busy = self._keeper.turn(time.time())
            waiting, nodes = self._machines.fetch()
            now = side(nodes)
            return now if not busy and not waiting and now.bound == pods else None

        return _when(settled, f"Dure's keeper with {pods} pods", PATIENCE_S)

    def still_to_save(self) -> float:
        """What Dure's consolidation would take off Karpenter's nodes as they stand, in dollars an hour."""
        _, nodes = self._reads.fetch()
        return consolidate(nodes, (self.pool,), Settings(), time.time()).saving / 1e6


def _when(settled: Callable[[], Side | None], who: str, patience_s: float) -> Side:
    """What stands once it is settled; a server too busy to answer is asked again."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with contextlib.suppress(Temporary):
            if (found := settled()) is not None:
                return found
        time.sleep(0.2)
    raise LabError(f"{who} did not settle in {patience_s:.0f} s")


@contextlib.contextmanager
def arena(karpenters: Cluster, ours: Cluster) -> Iterator[Arena]:
    pool = market()
    with Karpenter(karpenters, types_of(pool)), api_of(karpenters) as one, api_of(ours) as other:
        karpenters.apply(node_class(), node_pool())
        yield Arena(karpenters, ours, (one, other), pool)


def compare(karpenters: Cluster, ours: Cluster, seed: int, pods: int) -> Row:
    """Give both the same pods, then half of them."""
    with arena(karpenters, ours) as both:
        many = mix(seed, pods)
        pods = both.give(many)
        planned = both.planned(pods)
        theirs, mine = both.karpenter_settles(pods), both.ours_settles(pods)
        say(f"karpenter: seed {seed}, {pods} pods: Karpenter {theirs.usd_per_h}, Dure {mine.usd_per_h} USD/h")
        left = both.give({shape: count // 2 for shape, count in many.items()})
        then, mine_then = both.karpenter_settles(left, calm_s=CALM_S), both.ours_settles(left)
        say(f"karpenter: seed {seed}, {left} pods: Karpenter {then.usd_per_h}, Dure {mine_then.usd_per_h} USD/h")
        return Row(seed, pods, planned, theirs, mine, then, mine_then, both.still_to_save())


def market() -> Pool:
    """Every type of the ladder, on demand: Karpenter does not replace spot by spot unless there are many types."""
    offers = [
        Offer(
            one.name,
            one.class_name,
            (one.devices * 1000, one.vcpus * 1000, int(one.memory_gib * 1024)),
            one.usd_micros_per_h,
            zone=LAB_ZONE,
        )
        for one in instances()
        if any(fnmatch(one.name, pattern) for pattern in TYPES)
    ]
    return Pool(NAME, tuple(offers), overhead=(0, 100, 10))


def types_of(pool: Pool) -> list[Json]:
    """The same market in the words of Karpenter's KWOK provider."""
    assert {"cpu": f"{pool.overhead[1]}m", "memory": f"{pool.overhead[2]}Mi"} == RESERVED
    return [
        instance_type(
            one.type_name,
            {"cpu": f"{one.size[1]}m", "memory": f"{one.size[2]}Mi", GPU: str(one.size[0] // 1000)},
            [offer(one.price / 1e6, {CAPACITY_TYPE: one.capacity, ZONE: one.zone, CLASS: one.gpu_class})],
        )
        for one in pool.offers
    ]


def node_pool() -> Json:
    wanted = [
        {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": CLASS, "operator": "Exists"},
    ]
    template = {"spec": {"nodeClassRef": node_class_reference(), "requirements": wanted, "expireAfter": "Never"}}
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": NAME},
        "spec": {"template": template, "disruption": disruption},
    }


def mix(seed: int, pods: int) -> dict[tuple[int, int, int, str], int]:
    """Replica counts by (GPUs, milli-CPU, MiB, class or any): what a cluster of services and jobs asks for."""
    chance = random.Random(seed)
    found: dict[tuple[int, int, int, str], int] = {}
    while sum(found.values()) < pods:
        gpus = chance.choice((0, 1, 1, 1, 2, 4, 8))
        cpu = 1000 * chance.choice((1, 2, 3)) * max(1, gpus)
        memory = 1024 * chance.choice((2, 4, 6)) * max(1, gpus)
        shape = (gpus, cpu, memory, chance.choice(("", "", "a10g", "l4")) if 0 < gpus < 8 else "")
        found[shape] = found.get(shape, 0) + min(chance.randint(1, 6 if gpus < 4 else 2), pods - sum(found.values()))
    return found


def deployment(shape: tuple[int, int, int, str], replicas: int) -> Json:
    gpus, cpu, memory, class_name = shape
    name = "-".join(str(part) for part in shape if part != "") + "-pods"
    labels = {"app": name}
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpus)} if gpus else {})
    limits = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "image": "lab/none", "resources": {"requests": requests, "limits": limits}}
    pod: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if class_name:
        pod["nodeSelector"] = {CLASS: class_name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def side(nodes: Sequence[Node]) -> Side:
    mine = [node for node in nodes if node.pool == NAME]
    price = sum(node.offer.price for node in mine) / 1e6
    return Side(round(price, 4), len(mine), sum(len(node.pods) for node in mine))


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare Dure's node planner with the real Karpenter.")
    parser.add_argument("--seeds", default="2,3,4", help="mixes of pods, comma separated")
    parser.add_argument("--pods", type=int, default=60)
    options = parser.parse_args()
    worse = 0
    for seed in map(int, options.seeds.split(",")):
        with Lab(["karpenter", "dure"]) as lab:
            row = compare(lab["karpenter"], lab["dure"], seed, options.pods)
        print(json.dumps(msgspec.to_builtins(row)), flush=True)
        worse += row.dure_then.usd_per_h > row.karpenter_then.usd_per_h
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
