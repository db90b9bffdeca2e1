"""What every `ClusterPort` must do, said once. Subclass it with a `harness` fixture for an adapter.

The suite uses the port and the small harness below, nothing else: a real cluster needs real ways to be made, to
let its pods come up and to let them finish.
"""

from __future__ import annotations

import json
from typing import Protocol

import msgspec
import pytest

from dure.model.accelerator import ShareMode
from dure.model.cluster import Node, Pod, PodPhase, Slice
from dure.model.decision import Bind, Evict, Resize
from dure.model.errors import Conflict
from dure.model.fleet import ClusterSpec
from dure.model.reason import Reason, Verdict
from dure.model.report import Desired, Observed
from dure.model.workload import Workload
from dure.ports import ClusterPort
from tests.fixtures.small_world import GIB, cluster, desired, fraction, mig, mps, pool, service, training, whole

TAKEN = Verdict("test/big", Reason.PREEMPTED, "8 devices", "4 are free")


class Harness(Protocol):
    """How a suite makes and moves the world of one adapter."""

    def make(self, spec: ClusterSpec) -> ClusterPort:
        """A cluster with exactly these pools and ready nodes, where nothing goes wrong by itself."""
        ...

    def come_up(self) -> None:
        """Return when every bound pod runs."""
        ...

    def finish(self, uid: str) -> None:
        """Return when the pods of this workload have succeeded."""
        ...


def pods_of(port: ClusterPort, uid: str) -> tuple[Pod, ...]:
    found = (pod for pod in port.fetch_state().pods if pod.uid == uid)
    return tuple(sorted(found, key=lambda pod: pod.index))


def observed_of(port: ClusterPort, uid: str) -> Observed:
    return next(seen for seen in port.fetch_observed() if seen.uid == uid)


def nodes_of(port: ClusterPort, pool_name: str) -> tuple[Node, ...]:
    return tuple(node for node in port.fetch_state().nodes if node.pool == pool_name)


def bind(port: ClusterPort, pod: Pod, node: Node, *slices: Slice) -> None:
    port.bind([Bind(pod=pod.name, uid=pod.uid, node=node.name, slices=slices)])


def bind_whole(port: ClusterPort, uid: str, pool_name: str, skip: int = 0) -> None:
    """Each pod of the workload on the next whole device of the pool, after `skip` of them."""
    free = [(node, device.id) for node in nodes_of(port, pool_name) for device in node.devices][skip:]
    pods = pods_of(port, uid)
    port.bind(
        [Bind(pod.name, uid, node.name, whole(device)) for pod, (node, device) in zip(pods, free, strict=False)]
    )


HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def ruled(spec: Workload, **rules: object) -> Desired:
    """The workload with a pod template that carries the label `app: <name>` and these fields of a pod's spec."""
    template = {"metadata": {"labels": {"app": spec.name}}, "spec": rules}
    return desired(msgspec.structs.replace(spec, template=json.dumps(template)))


def mates(name: str) -> dict[str, object]:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": name}}}


CLUSTER = cluster(pool("big", "big", nodes=2, devices=4), pool("small", "small", devices=2))


class ClusterContract:
    """Inherit as `TestX(ClusterContract)` with a fixture `harness`."""

    @pytest.fixture
    def port(self, harness: Harness) -> ClusterPort:
        return harness.make(CLUSTER)

    def test_a_fresh_cluster_shows_its_nodes_sorted_and_no_pods(self, port: ClusterPort) -> None:
        state = port.fetch_state()
        assert state.cluster == port.name == "test"
        assert [node.name for node in state.nodes] == sorted(node.name for node in state.nodes)
        assert sorted(node.pool for node in state.nodes) == ["big", "big", "small"]
        assert [len(node.devices) for node in nodes_of(port, "big")] == [4, 4]
        assert state.pods == ()
        assert port.fetch_observed() == ()

    def test_device_ids_are_unique_in_the_cluster(self, port: ClusterPort) -> None:
        ids = [device.id for node in port.fetch_state().nodes for device in node.devices]
        assert len(ids) == len(set(ids)) == 10

    def test_apply_makes_one_pending_pod_for_each_member_of_a_gang(self, port: ClusterPort) -> None:
        port.apply(desired(training("t", gang=3)))
        pods = pods_of(port, "uid-t")
        assert [pod.index for pod in pods] == [0, 1, 2]
        assert {(pod.phase, pod.node, pod.gang, pod.pool, pod.workload) for pod in pods} == {
            (PodPhase.PENDING, "", 3, "big", "t")
        }
        assert pods[0].classes == ("big", "small")
        seen = observed_of(port, "uid-t")
        assert (seen.pods, seen.bound, seen.ready, seen.generation) == (3, 0, 0, 1)

    def test_replicas_of_a_serving_are_bound_one_by_one(self, port: ClusterPort) -> None:
        port.apply(desired(service("s", replicas=2)))
        first, second = pods_of(port, "uid-s")
        assert first.gang == second.gang == 1
        node = nodes_of(port, "big")[0]
        bind(port, first, node, *whole(node.devices[0].id))
        assert observed_of(port, "uid-s").bound == 1

    def test_applying_twice_changes_nothing(self, port: ClusterPort) -> None:
        port.apply(desired(training("t", gang=2)))
        before = port.fetch_state().pods
        port.apply(desired(training("t", gang=2)))
        assert port.fetch_state().pods == before

    def test_a_lower_generation_is_ignored(self, port: ClusterPort) -> None:
        port.apply(desired(training("t"), generation=5))
        before = port.fetch_state().pods
        port.apply(desired(training("t"), generation=4, pool="small"))
        assert port.fetch_state().pods == before
        assert observed_of(port, "uid-t").generation == 5

    def test_a_higher_generation_replaces_the_pods(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(training("t"), generation=1))
        bind_whole(port, "uid-t", "big")
        harness.come_up()
        port.apply(desired(training("t"), generation=2, pool="small"))
        (pod,) = pods_of(port, "uid-t")
        assert (pod.pool, pod.phase, pod.generation) == ("small", PodPhase.PENDING, 2)
        assert observed_of(port, "uid-t").generation == 2

    def test_a_gang_takes_another_size_as_a_new_set_that_begins_at_the_checkpoint(
        self, port: ClusterPort, harness: Harness
    ) -> None:
        spec = training("t", gang=2)
        port.apply(desired(spec, replicas=2))
        bind_whole(port, "uid-t", "big")
        harness.come_up()
        for generation, size in ((2, 4), (3, 2)):
            port.apply(desired(spec, generation=generation, replicas=size, done_s=10.0 * generation))
            pods = pods_of(port, "uid-t")
            assert [pod.index for pod in pods] == list(range(size))
            assert {(pod.phase, pod.node, pod.gang, pod.generation) for pod in pods} == {
                (PodPhase.PENDING, "", size, generation)
            }
            seen = observed_of(port, "uid-t")
            assert (seen.generation, seen.pods, seen.bound, seen.ready) == (generation, size, 0, 0)
            assert (seen.started_s, seen.done_s) == (None, 10.0 * generation)
            # On what the set before it held, and beside it when it has grown.
            bind_whole(port, "uid-t", "big")
            harness.come_up()
            seen = observed_of(port, "uid-t")
            assert (seen.bound, seen.ready) == (size, size)
            assert seen.started_s is not None
        port.apply(desired(training("next", gang=2)))
        bind_whole(port, "uid-next", "big", skip=2)
        harness.finish("uid-t")
        assert observed_of(port, "uid-t").succeeded == 2

    def test_an_earlier_size_comes_too_late(self, port: ClusterPort) -> None:
        spec = training("t", gang=2)
        port.apply(desired(spec, generation=3, replicas=4))
        port.apply(desired(spec, generation=2, replicas=2))
        assert len(pods_of(port, "uid-t")) == observed_of(port, "uid-t").pods == 4

    def test_two_workloads_of_one_name_are_kept_apart_by_uid(self, port: ClusterPort) -> None:
        port.apply(desired(training("t"), uid="one"))
        port.apply(desired(training("t"), uid="two"))
        assert pods_of(port, "one")[0].name != pods_of(port, "two")[0].name
        port.delete("one")
        assert [pod.uid for pod in port.fetch_state().pods] == ["two"]

    def test_a_bound_gang_comes_up_runs_and_finishes(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(training("t", gang=2)))
        bind_whole(port, "uid-t", "big")
        assert observed_of(port, "uid-t").bound == 2
        harness.come_up()
        seen = observed_of(port, "uid-t")
        assert (seen.ready, seen.succeeded) == (2, 0)
        assert seen.started_s is not None
        harness.finish("uid-t")
        seen = observed_of(port, "uid-t")
        assert (seen.ready, seen.succeeded, seen.failed, seen.bound) == (0, 2, 0, 0)
        assert seen.finished_s is not None
        assert seen.finished_s >= (seen.started_s or 0.0)

    def test_an_ended_workload_is_shown_until_it_is_deleted(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(training("t")))
        bind_whole(port, "uid-t", "big")
        harness.finish("uid-t")
        assert observed_of(port, "uid-t").succeeded == 1
        port.delete("uid-t")
        assert port.fetch_observed() == ()
        assert port.fetch_state().pods == ()

    def test_devices_of_a_finished_workload_are_free_again(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(training("a")))
        bind_whole(port, "uid-a", "big")
        harness.finish("uid-a")
        port.apply(desired(training("b")))
        bind_whole(port, "uid-b", "big")
        assert observed_of(port, "uid-b").bound == 1

    def test_deleting_what_is_not_there_is_fine(self, port: ClusterPort) -> None:
        port.delete("nobody")
        port.apply(desired(training("t")))
        port.delete("uid-t")
        port.delete("uid-t")
        assert port.fetch_state().pods == ()

    def test_a_device_that_is_held_whole_cannot_be_bound_again(self, port: ClusterPort) -> None:
        port.apply(desired(training("a")))
        port.apply(desired(training("b")))
        bind_whole(port, "uid-a", "big")
        with pytest.raises(Conflict):
            bind_whole(port, "uid-b", "big")
        assert observed_of(port, "uid-b").bound == 0

    def test_a_pod_cannot_be_bound_twice(self, port: ClusterPort) -> None:
        port.apply(desired(training("t")))
        bind_whole(port, "uid-t", "big")
        with pytest.raises(Conflict):
            bind_whole(port, "uid-t", "big", skip=1)

    def test_a_pod_that_is_gone_cannot_be_bound(self, port: ClusterPort) -> None:
        port.apply(desired(training("t")))
        (pod,) = pods_of(port, "uid-t")
        port.delete("uid-t")
        node = nodes_of(port, "big")[0]
        with pytest.raises(Conflict):
            bind(port, pod, node, *whole(node.devices[0].id))

    def test_part_of_a_gang_cannot_be_bound(self, port: ClusterPort) -> None:
        port.apply(desired(training("t", gang=3)))
        node = nodes_of(port, "big")[0]
        two = pods_of(port, "uid-t")[:2]
        with pytest.raises(Conflict):
            port.bind(
                [
                    Bind(pod.name, pod.uid, node.name, whole(dev.id))
                    for pod, dev in zip(two, node.devices, strict=False)
                ]
            )
        assert observed_of(port, "uid-t").bound == 0

    def test_one_bad_member_leaves_the_whole_gang_unbound(self, port: ClusterPort) -> None:
        port.apply(desired(training("t", gang=2)))
        node = nodes_of(port, "big")[0]
        same = whole(node.devices[0].id)
        with pytest.raises(Conflict):
            port.bind([Bind(pod.name, pod.uid, node.name, same) for pod in pods_of(port, "uid-t")])
        assert observed_of(port, "uid-t").bound == 0

    def test_host_memory_and_cpu_cannot_be_overcommitted(self, harness: Harness) -> None:
        port = harness.make(cluster(pool("big", "big", devices=64)))
        port.apply(desired(training("t", gang=33)))
        with pytest.raises(Conflict):
            bind_whole(port, "uid-t", "big")
        port.apply(desired(training("u", gang=32)))
        bind_whole(port, "uid-u", "big")

    def test_mig_slices_must_start_where_the_geometry_says(self, port: ClusterPort) -> None:
        node = nodes_of(port, "big")[0]
        device = node.devices[0].id
        port.apply(desired(fraction("b"), mode=ShareMode.MIG))
        (pod,) = pods_of(port, "uid-b")
        with pytest.raises(Conflict):
            bind(port, pod, node, mig(device, "2g", 1))
        bind(port, pod, node, mig(device, "2g", 2))

    def test_mig_slices_cannot_overlap(self, port: ClusterPort) -> None:
        node = nodes_of(port, "big")[0]
        device = node.devices[0].id
        for name in ("a", "b", "c"):
            port.apply(desired(fraction(name), mode=ShareMode.MIG))
        bind(port, pods_of(port, "uid-a")[0], node, mig(device, "3g", 0))
        with pytest.raises(Conflict):
            bind(port, pods_of(port, "uid-b")[0], node, mig(device, "1g", 3))
        bind(port, pods_of(port, "uid-b")[0], node, mig(device, "3g", 4))
        # Slot 7 is free now, but no profile may start there.
        with pytest.raises(Conflict):
            bind(port, pods_of(port, "uid-c")[0], node, mig(device, "1g", 7))

    def test_a_slice_smaller_than_the_demand_is_refused(self, port: ClusterPort) -> None:
        node = nodes_of(port, "big")[0]
        port.apply(desired(fraction("b", memory_mib=8 * GIB), mode=ShareMode.MIG))
        with pytest.raises(Conflict):
            bind(port, pods_of(port, "uid-b")[0], node, mig(node.devices[0].id, "1g", 0))

    def test_shares_of_a_device_cannot_exceed_it_in_any_dimension(self, port: ClusterPort) -> None:
        (node,) = nodes_of(port, "small")
        device = node.devices[0].id
        for name in ("a", "b"):
            port.apply(desired(fraction(name), pool="small", mode=ShareMode.MPS))
        bind(port, pods_of(port, "uid-a")[0], node, mps(device, 10 * GIB, 600, 600))
        (second,) = pods_of(port, "uid-b")
        for too_much in (mps(device, 7 * GIB), mps(device, 4 * GIB, 401), mps(device, 4 * GIB, 0, 401)):
            with pytest.raises(Conflict):
                bind(port, second, node, too_much)
        bind(port, second, node, mps(device, 6 * GIB, 400, 400))

    def test_two_modes_cannot_meet_on_one_device(self, port: ClusterPort) -> None:
        node = nodes_of(port, "big")[0]
        device = node.devices[0].id
        port.apply(desired(fraction("b"), mode=ShareMode.MIG))
        port.apply(desired(training("t")))
        bind(port, pods_of(port, "uid-b")[0], node, mig(device, "1g", 0))
        with pytest.raises(Conflict):
            bind(port, pods_of(port, "uid-t")[0], node, *whole(device))

    def test_a_device_in_use_cannot_be_cut_in_another_way(self, port: ClusterPort) -> None:
        node = nodes_of(port, "big")[0]
        held, free = node.devices[0].id, node.devices[1].id
        port.apply(desired(training("t")))
        bind(port, pods_of(port, "uid-t")[0], node, *whole(held))
        with pytest.raises(Conflict):
            port.resize([Resize(node.name, held, ShareMode.MIG, TAKEN)])
        port.resize([Resize(node.name, free, ShareMode.MIG, TAKEN)])
        port.resize([Resize(node.name, free, ShareMode.MIG, TAKEN)])
        modes = {device.id: device.mode for device in nodes_of(port, "big")[0].devices}
        assert (modes[held], modes[free]) == (ShareMode.EXCLUSIVE, ShareMode.MIG)

    def test_an_evicted_gang_leaves_and_says_why(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(training("t", gang=2)))
        bind_whole(port, "uid-t", "big")
        harness.come_up()
        victim = pods_of(port, "uid-t")[0]
        wish = [Evict(victim.name, victim.uid, "t", TAKEN)]
        port.evict(wish)
        port.evict(wish)
        seen = observed_of(port, "uid-t")
        assert "Preempted" in seen.lost
        assert (seen.bound, seen.ready) == (0, 0)
        port.apply(desired(training("t", gang=2), generation=2))
        assert observed_of(port, "uid-t").lost == ""
        bind_whole(port, "uid-t", "big")

    def test_an_evicted_replica_waits_again_while_the_others_run(self, port: ClusterPort, harness: Harness) -> None:
        port.apply(desired(service("s", replicas=2)))
        node = nodes_of(port, "big")[0]
        for pod, device in zip(pods_of(port, "uid-s"), node.devices, strict=False):
            bind(port, pod, node, *whole(device.id))
        harness.come_up()
        victim = pods_of(port, "uid-s")[0]
        port.evict([Evict(victim.name, victim.uid, "s", TAKEN)])
        seen = observed_of(port, "uid-s")
        assert (seen.pods, seen.bound, seen.ready) == (2, 1, 1)

    def test_a_serving_gets_more_replicas_without_losing_those_that_run(
        self, port: ClusterPort, harness: Harness
    ) -> None:
        port.apply(desired(service("s", replicas=1), replicas=1))
        bind_whole(port, "uid-s", "big")
        harness.come_up()
        port.apply(desired(service("s", replicas=1), generation=2, replicas=3))
        seen = observed_of(port, "uid-s")
        assert (seen.pods, seen.ready, seen.generation) == (3, 1, 2)
        port.apply(desired(service("s", replicas=1), generation=3, replicas=1))
        seen = observed_of(port, "uid-s")
        assert (seen.pods, seen.ready, seen.generation) == (1, 1, 3)

    def test_members_that_must_be_apart_are_bound_to_different_nodes_or_not_at_all(self, port: ClusterPort) -> None:
        port.apply(ruled(training("t", gang=2), affinity={"podAntiAffinity": {REQUIRED: [mates("t")]}}))
        with pytest.raises(Conflict):
            bind_whole(port, "uid-t", "big")
        pods, nodes = pods_of(port, "uid-t"), nodes_of(port, "big")
        port.bind(
            [
                Bind(pod.name, "uid-t", node.name, whole(node.devices[0].id))
                for pod, node in zip(pods, nodes, strict=True)
            ]
        )
        assert observed_of(port, "uid-t").bound == 2

    def test_whoever_must_be_near_a_pod_is_bound_beside_it_only(self, port: ClusterPort) -> None:
        first, second = nodes_of(port, "big")
        port.apply(ruled(training("db")))
        bind(port, pods_of(port, "uid-db")[0], second, *whole(second.devices[0].id))
        port.apply(ruled(training("web"), affinity={"podAffinity": {REQUIRED: [mates("db")]}}))
        (pod,) = pods_of(port, "uid-web")
        with pytest.raises(Conflict):
            bind(port, pod, first, *whole(first.devices[0].id))
        bind(port, pod, second, *whole(second.devices[1].id))

    def test_a_required_node_affinity_is_kept(self, port: ClusterPort) -> None:
        first, second = nodes_of(port, "big")
        named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [second.name]}]}
        port.apply(ruled(training("t"), affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [named]}}}))
        (pod,) = pods_of(port, "uid-t")
        with pytest.raises(Conflict):
            bind(port, pod, first, *whole(first.devices[0].id))
        bind(port, pod, second, *whole(second.devices[0].id))

    def test_a_hard_spread_is_kept(self, port: ClusterPort) -> None:
        first, second = nodes_of(port, "big")
        even = {**mates("s"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        port.apply(ruled(service("s", replicas=2), topologySpreadConstraints=[even]))
        one, two = pods_of(port, "uid-s")
        bind(port, one, first, *whole(first.devices[0].id))
        with pytest.raises(Conflict):
            bind(port, two, first, *whole(first.devices[1].id))
        bind(port, two, second, *whole(second.devices[0].id))

    def test_an_explanation_is_shown_on_the_pod(self, port: ClusterPort) -> None:
        port.apply(desired(training("t")))
        (pod,) = pods_of(port, "uid-t")
        port.explain(pod.name, "needs 8 devices, 4 are free")
        port.explain("nobody", "is fine")
        assert pods_of(port, "uid-t")[0].message == "needs 8 devices, 4 are free"
        assert observed_of(port, "uid-t").message == "needs 8 devices, 4 are free"
