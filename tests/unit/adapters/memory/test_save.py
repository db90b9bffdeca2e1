"""A restart goes on as if it had not happened, and the same seed and calls give the same bytes everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from dure.adapters.memory.cluster import MemoryCluster
from dure.adapters.memory.laws import DEMO
from dure.adapters.memory.world import restore
from dure.model.errors import InvalidInput
from dure.model.tariff import Capacity
from tests.fixtures.embedded import Bench
from tests.fixtures.small_world import CATALOGUE, cluster, desired, pool, service, training

BIG = pool("big", "big", nodes=2, nodes_max=4, devices=4)
SPOT = pool("small", "small", nodes=2, capacity=Capacity.SPOT, reclaim_per_hour=0.3)


def lively(seed: int = 3) -> Bench:
    """A cluster in the middle of its life: running, waiting, serving, one lost node or two."""
    bench = Bench(BIG, SPOT, hazards=replace(DEMO, device_mtbf_h=200.0), seed=seed)
    bench.port.apply(desired(training("t", gang=6, duration_s=5e4, checkpoint_s=600.0, model="chat")))
    bench.bind_whole("uid-t")
    bench.port.apply(desired(service("s", replicas=2), pool="small"))
    bench.port.apply(desired(training("waits", gang=12)))
    bench.after(20_000.0)
    return bench


def days_later(bench: Bench) -> bytes:
    for _ in range(40):
        bench.after(5_000.0)
        bench.port.fetch_state()
        bench.port.fetch_observed()
    return bench.port.save()


def test_a_restart_changes_nothing() -> None:
    through, restarted = lively(), lively()
    saved = restarted.port.save()
    restarted.port = MemoryCluster(
        restarted.spec, CATALOGUE, restarted.clock, seed=1, hazards=replace(DEMO, device_mtbf_h=200.0)
    )
    restarted.port.restore(saved)
    assert restarted.port.save() == saved == through.port.save()
    assert days_later(restarted) == days_later(through)


def test_another_seed_gives_another_life() -> None:
    assert days_later(lively(3)) != days_later(lively(4))


def test_the_pod_template_of_a_workload_survives() -> None:
    bench = Bench(BIG)
    spec = replace(training("t"), template='{"spec":{"containers":[]}}')
    bench.port.apply(desired(spec))
    saved = bench.port.save()
    bench.port.restore(saved)
    assert bench.port.save() == saved
    (work,) = restore(saved).works.values()
    assert work.desired.spec == spec


def test_the_state_of_another_cluster_is_refused() -> None:
    other = MemoryCluster(cluster(BIG, name="other"), CATALOGUE, Bench(BIG).clock)
    with pytest.raises(InvalidInput, match="'test' given to 'other'"):
        other.restore(Bench(BIG).port.save())


def test_same_seed_same_bytes_whatever_the_hash_seed() -> None:
    digests = set()
    for hash_seed in ("0", "1", "4242"):
        code = "from tests.unit.adapters.memory.test_save import print_digest; print_digest()"
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"src{os.pathsep}."},
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1


def print_digest() -> None:
    print(hashlib.sha256(days_later(lively())).hexdigest())
