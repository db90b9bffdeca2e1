"""Draws pods and running clusters for the node benchmarks from a list of offers.

Same offers and seed give the same state. Clusters look like real ones after some weeks: they were provisioned for
more pods than run now, so most nodes have holes and some are empty.
"""

from __future__ import annotations

import numpy as np

from dure.scale.nodes.state import Node, Offer, Pod, Pool, usable

SHAPES = ((0, 2, 8), (0, 4, 32), (1, 4, 16), (1, 8, 32), (1, 16, 64), (2, 16, 64), (4, 32, 128), (8, 64, 512))
GIB = 1024


def draw_pods(count: int, classes: tuple[str, ...], seed: int, prefix: str = "pod") -> tuple[Pod, ...]:
    """Pods of usual shapes; a third may not run on spot, half insist on one GPU class."""
    rng = np.random.default_rng(seed)
    weights = np.array([0.18, 0.1, 0.3, 0.16, 0.08, 0.1, 0.06, 0.02])
    pods = []
    for index in range(count):
        gpu, cpu, memory = SHAPES[int(rng.choice(len(SHAPES), p=weights))]
        wanted = (classes[int(rng.integers(len(classes)))],) if gpu and rng.uniform() < 0.5 else ()
        pods.append(
            Pod(
                f"{prefix}-{index:05d}",
                (gpu * 1000, cpu * 900, memory * GIB * 9 // 10),
                classes=wanted,
                spot_ok=bool(rng.uniform() < 0.67),
                rework=int(rng.integers(0, 5)) * 100_000,
                pinned=bool(rng.uniform() < 0.02),
            )
        )
    return tuple(pods)


def draw_cluster(nodes: int, pool: Pool, seed: int) -> tuple[Node, ...]:
    """A running cluster of `nodes` nodes from the pool's offers, filled and then thinned out."""
    rng = np.random.default_rng(seed)
    offers = pool.offers
    made: list[Node] = []
    serial = 0
    for index in range(nodes):
        offer: Offer = offers[int(rng.integers(len(offers)))]
        room = list(usable(offer, pool))
        keep = rng.uniform(0.0, 1.0)
        pods: list[Pod] = []
        for pod in draw_pods(24, (offer.gpu_class,), int(rng.integers(2**31)), prefix=f"n{index:04d}"):
            if all(part <= have for part, have in zip(pod.size, room, strict=True)) and (
                pod.spot_ok or offer.capacity != "spot"
            ):
                room = [have - part for have, part in zip(room, pod.size, strict=True)]
                if rng.uniform() < keep:
                    pods.append(pod)
                    serial += 1
        made.append(Node(f"node-{index:04d}", pool.name, offer, usable(offer, pool), tuple(pods)))
    return tuple(made)
