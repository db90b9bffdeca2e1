"""What an agent tells of its pools: the same whether counted anew or kept from look to look."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.cluster import ClusterState, NodePhase, Pod, PodPhase, Slice
from dure.model.fleet import PoolSpec
from dure.model.tariff import Tariff
from dure.pack import Survey
from tests.unit.pack.worlds import CATALOGUE, MODES, node, pod

SPEC = PoolSpec("pool", "big", Tariff("c", "pool", "big"), nodes=3, devices=2, share=MODES)
PHASES = (NodePhase.READY, NodePhase.BOOTING, NodePhase.GONE)


def held(number: int, host: int, device: int, milli: int, phase: PodPhase = PodPhase.RUNNING) -> Pod:
    part = Slice(f"n{host}/{device}", ShareMode.MPS, memory_mib=milli * 20, compute_milli=milli)
    return pod(f"p{number}", compute=milli, node=f"n{host}", slices=(part,), phase=phase)


def state(pods: list[Pod], phases: tuple[NodePhase, ...] = (NodePhase.READY,) * 3, at: int = 0) -> ClusterState:
    nodes = tuple(msgspec.structs.replace(node(f"n{i}", 2), phase=phases[i]) for i in range(3))
    return ClusterState("c", float(at), str(at), nodes, tuple(pods))


def test_a_held_share_is_missing_from_its_pool() -> None:
    (pool,) = Survey(CATALOGUE, (SPEC,)).pools(state([held(0, 1, 0, 300)]), {"pool": {"llama": 1}})
    assert (pool.nodes, pool.devices, pool.free_milli, pool.free_whole) == (3, 6, 5700, (2, 2, 1))
    assert pool.warm == {"llama": 1}


def test_figures_of_a_pool_are_of_its_ready_nodes_and_the_largest_is_of_one_device() -> None:
    phases = (NodePhase.READY, NodePhase.READY, NodePhase.BOOTING)
    busy = state([held(0, 0, 0, 300), held(1, 0, 1, 400), held(2, 1, 0, 600), held(3, 1, 1, 500)], phases)
    (pool,) = Survey(CATALOGUE, (SPEC,)).pools(busy, {})
    assert (pool.nodes, pool.nodes_ready, pool.free_whole) == (3, 2, ())
    assert (pool.free_milli, pool.largest_compute_milli) == (700 + 600 + 400 + 500, 700)
    assert pool.largest_memory_mib == 81_920 - 300 * 20
    host = node("n", 2)
    assert pool.free_cpu_milli == 2 * host.cpu_milli - 4 * 2000
    assert (pool.largest_cpu_milli, pool.largest_host_memory_mib) == (
        host.cpu_milli - 2 * 2000,
        host.memory_mib - 2 * 4096,
    )


def test_a_pool_may_have_as_many_nodes_as_it_says_or_has() -> None:
    def most(**spec: int) -> int:
        made = msgspec.structs.replace(SPEC, **spec)
        return Survey(CATALOGUE, (made,)).pools(state([]), {})[0].nodes_max

    assert (most(nodes_max=7), most(nodes_max=1), most(nodes=5), most(nodes=1)) == (7, 3, 5, 3)


def test_a_pod_that_ended_holds_nothing() -> None:
    (pool,) = Survey(CATALOGUE, (SPEC,)).pools(state([held(0, 1, 0, 300, PodPhase.SUCCEEDED)]), {})
    assert pool.free_milli == 6000


pods = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from([100, 250])), max_size=6).map(
    lambda found: [held(i, *one) for i, one in enumerate(found)]
)
looks = st.lists(st.tuples(pods, st.tuples(*[st.sampled_from(PHASES)] * 3)), min_size=1, max_size=6)


@given(looks=looks)
def test_what_is_kept_between_looks_equals_a_fresh_count(
    looks: list[tuple[list[Pod], tuple[NodePhase, ...]]],
) -> None:
    kept = Survey(CATALOGUE, (SPEC,))
    for at, (there, phases) in enumerate(looks):
        now = state(there, phases, at)
        assert kept.pools(now, {}) == Survey(CATALOGUE, (SPEC,)).pools(now, {})
