"""What an agent tells of its pools: the same whether counted anew or kept from look to look."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.model.accelerator import ShareMode
from dure.model.cluster import ClusterState, Device, Node, NodePhase, Pod, PodPhase, Slice, VNodePool
from dure.model.fleet import PoolSpec
from dure.model.tariff import Tariff
from dure.pack import Survey
from dure.pack.pools import Figures
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


def test_every_figure_of_a_pool_comes_from_its_spec_or_its_nodes() -> None:
    spec = msgspec.structs.replace(SPEC, boot_s=33.0)
    part = Slice("n0/0", ShareMode.MPS, memory_mib=20_000, compute_milli=300, bandwidth_milli=250)
    whole = Slice("n0/1", ShareMode.EXCLUSIVE, memory_mib=81_920, compute_milli=1000, bandwidth_milli=1000)
    holders = [
        pod("p", node="n0", slices=(part,), phase=PodPhase.STARTING),
        pod("q", node="n0", slices=(whole,), phase=PodPhase.RUNNING),
    ]
    gone = state(holders, (NodePhase.READY, NodePhase.DRAINING, NodePhase.GONE))
    (pool,) = Survey(CATALOGUE, (spec,)).pools(gone, {"other": {"m": 1}})
    assert pool == VNodePool(
        cluster="c",
        name="pool",
        class_name="big",
        capacity=spec.capacity,
        share=MODES,
        nodes=2,
        nodes_ready=1,
        nodes_max=3,
        devices_per_node=2,
        devices=4,
        free_whole=(),
        free_milli=700,
        largest_memory_mib=61_920,
        largest_compute_milli=700,
        largest_bandwidth_milli=750,
        free_cpu_milli=60_000,
        free_host_memory_mib=262_144 - 8192,
        largest_cpu_milli=60_000,
        largest_host_memory_mib=262_144 - 8192,
        boot_s=33.0,
    )


def test_pools_are_told_by_name_and_nodes_of_other_pools_are_not_counted() -> None:
    specs = tuple(msgspec.structs.replace(SPEC, name=name) for name in ("z", "pool", "a"))
    found = Survey(CATALOGUE, specs).pools(state([]), {})
    assert [(one.name, one.nodes, one.devices) for one in found] == [("a", 0, 0), ("pool", 3, 6), ("z", 0, 0)]
    assert Survey(CATALOGUE, specs[:1]).pools(state([]), {})[0].free_whole == ()


def test_an_ill_device_is_counted_and_gives_nothing() -> None:
    ill = msgspec.structs.replace(
        node("n0", 0), devices=(Device("n0/0", "big", healthy=False), Device("n0/1", "big", ShareMode.MPS))
    )
    one = ClusterState("c", 0.0, "0", (ill,), ())
    (pool,) = Survey(CATALOGUE, (SPEC,)).pools(one, {})
    assert (pool.devices, pool.free_whole, pool.free_milli) == (2, (1,), 1000)


def test_the_largest_part_of_an_empty_device_is_that_of_the_best_mode_its_pool_offers() -> None:
    def largest(*share: ShareMode) -> int:
        spec = msgspec.structs.replace(SPEC, share=share)
        return Survey(CATALOGUE, (spec,)).pools(state([]), {})[0].largest_memory_mib

    assert largest(ShareMode.MIG) == 8 * 9_728
    assert largest(ShareMode.MIG, ShareMode.MPS) == 81_920
    assert largest() == 0


def test_a_node_on_which_nothing_changed_is_not_counted_again() -> None:
    counted: list[str] = []

    class Watched(Survey):
        def _figures(self, node: Node, pods: list[Pod]) -> Figures:
            counted.append(node.name)
            return super()._figures(node, pods)

    survey = Watched(CATALOGUE, (SPEC,))
    survey.pools(state([held(0, 1, 0, 300)]), {})
    survey.pools(state([held(0, 1, 0, 300)], at=1), {})
    assert counted == ["n0", "n1", "n2"]
    survey.pools(state([held(0, 1, 0, 250)], at=2), {})
    survey.pools(state([held(0, 1, 0, 250)], (NodePhase.BOOTING, *[NodePhase.READY] * 2), at=3), {})
    assert counted[3:] == ["n1", "n0"]


def test_a_pool_is_the_very_same_until_a_node_or_a_model_of_it_is_another() -> None:
    spec = PoolSpec("pool", "big", tariff=Tariff("c", "pool", "big"), devices=2)
    survey = Survey(CATALOGUE, (spec,))
    nodes = (node("a", 2),)
    [first] = survey.pools(ClusterState("c", 0.0, "1", nodes, ()), {})
    [again] = survey.pools(ClusterState("c", 9.0, "2", nodes, ()), {})
    assert again is first
    [warm] = survey.pools(ClusterState("c", 9.0, "3", nodes, ()), {"pool": {"m": 1}})
    assert warm.warm == {"m": 1}
    [more] = survey.pools(ClusterState("c", 9.0, "4", (*nodes, node("b", 2)), ()), {})
    assert (more.nodes, more.warm) == (2, {})
