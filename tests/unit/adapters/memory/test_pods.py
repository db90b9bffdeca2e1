from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.adapters.memory.laws import CALM, Hazards
from dure.adapters.memory.pods import true_s
from dure.model.cluster import PodPhase
from dure.model.decision import Evict
from dure.model.errors import Temporary
from dure.model.reason import Reason, Verdict
from dure.model.workload import AcceptedClass, SpeedUp
from tests.fixtures.embedded import Bench
from tests.fixtures.small_world import desired, pool, service, training

BIG = pool("big", "big", nodes=2, devices=4)
GIVE_WAY = Verdict("test/big", Reason.PREEMPTED)


def evict(bench: Bench, uid: str) -> None:
    pod = bench.pods(uid)[0]
    bench.port.evict([Evict(pod.name, uid, pod.workload, GIVE_WAY)])


def test_work_takes_its_estimate_where_nothing_is_rough() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t", duration_s=1000.0)))
    bench.bind_whole("uid-t")
    bench.after(2.0)
    assert bench.seen("uid-t").ready == 1
    bench.after(999.0)
    assert bench.seen("uid-t").succeeded == 0
    bench.after(1.0)
    seen = bench.seen("uid-t")
    assert seen.succeeded == 1
    assert seen.done_s == pytest.approx(1000.0)
    assert seen.finished_s == pytest.approx((seen.started_s or 0.0) + 1000.0)


def test_a_slower_class_takes_longer() -> None:
    bench = Bench(pool("small", "small"))
    bench.port.apply(desired(training("t", duration_s=1000.0), pool="small"))
    bench.bind_whole("uid-t")
    bench.after(2.0 + 1999.0)
    assert bench.seen("uid-t").succeeded == 0
    bench.after(1.0)
    seen = bench.seen("uid-t")
    assert seen.succeeded == 1
    assert seen.done_s == pytest.approx(1000.0)


def test_the_estimate_is_not_the_truth() -> None:
    truths = [true_s(1, training(f"t{number}", duration_s=1000.0), 0.2) for number in range(400)]
    assert len(set(truths)) == 400
    assert sum(truths) / 400 == pytest.approx(1000.0, rel=0.05)
    assert min(truths) < 800 < 1250 < max(truths)


def test_only_what_is_checkpointed_is_safe() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t", checkpoint_s=300.0)))
    bench.bind_whole("uid-t")
    bench.after(2.0 + 299.0)
    assert bench.seen("uid-t").done_s == 0.0
    bench.after(1.0)
    assert bench.seen("uid-t").done_s == pytest.approx(300.0)
    bench.after(450.0)
    assert bench.seen("uid-t").done_s == pytest.approx(600.0)


def test_a_lost_gang_goes_on_from_its_last_checkpoint() -> None:
    bench = Bench(BIG)
    spec = training("t", gang=2, checkpoint_s=300.0)
    bench.port.apply(desired(spec))
    bench.bind_whole("uid-t")
    bench.after(2.0 + 650.0)
    evict(bench, "uid-t")
    seen = bench.seen("uid-t")
    assert (seen.pods, seen.lost) == (0, "Preempted")
    assert seen.done_s == pytest.approx(600.0)
    bench.port.apply(desired(spec))
    assert bench.pods("uid-t") == (), "the same generation does not bring a lost gang back"
    bench.port.apply(desired(spec, generation=2, done_s=600.0))
    bench.bind_whole("uid-t")
    bench.after(2.0 + 400.0)
    assert bench.seen("uid-t").succeeded == 2


def test_without_checkpoints_a_lost_workload_starts_over() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t")))
    bench.bind_whole("uid-t")
    bench.after(900.0)
    evict(bench, "uid-t")
    assert bench.seen("uid-t").done_s == 0.0


def test_work_done_elsewhere_is_not_done_again() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t"), done_s=900.0))
    bench.bind_whole("uid-t")
    bench.after(102.0)
    assert bench.seen("uid-t").succeeded == 1


def test_an_elastic_gang_speeds_up_with_its_size() -> None:
    bench = Bench(BIG)
    spec = replace(training("t", gang=1), speedups=(SpeedUp(1, 1.0), SpeedUp(2, 1.8), SpeedUp(4, 3.0)))
    bench.port.apply(desired(spec, replicas=2))
    bench.bind_whole("uid-t")
    bench.after(2.0 + 1000.0 / 1.8 + 1.0)
    assert bench.seen("uid-t").succeeded == 2


def test_a_model_loads_faster_where_it_was_loaded_before() -> None:
    bench = Bench(pool("big", "big", nodes=2, devices=2))

    def start_delay(uid: str) -> float:
        bound_s = bench.clock.now()
        bench.after(200.0)
        return (bench.seen(uid).started_s or 0.0) - bound_s

    delays = {}
    for name in ("cold", "same-node", "other-node"):
        bench.port.apply(desired(training(name, model="chat")))
        bench.bind_whole(f"uid-{name}")
        delays[name] = start_delay(f"uid-{name}")
    assert delays["same-node"] < 0.5 * delays["other-node"] < 0.5 * delays["cold"]
    assert any("dure.dev/warm.chat" in node.labels for node in bench.nodes())


def test_a_crash_restarts_in_place_from_the_checkpoint_and_gives_up_after_the_limit() -> None:
    rough = Hazards(duration_sigma=0.0, doomed=0.0, crash_per_h=200.0, restarts=3, device_mtbf_h=0.0, reclaim=False)
    bench = Bench(BIG, hazards=rough)
    bench.port.apply(desired(training("t", duration_s=1e6, checkpoint_s=1.0)))
    bench.bind_whole("uid-t")
    node = bench.pods("uid-t")[0].node
    best, messages = 0.0, set()
    while not bench.seen("uid-t").finished_s:
        bench.after(1.0)
        seen = bench.seen("uid-t")
        assert seen.done_s >= best
        best = seen.done_s
        messages.add(seen.message)
        assert bench.pods("uid-t")[0].node == node
    assert bench.seen("uid-t").failed == 1
    assert {"crashed, restart 1 of 3", "crashed, restart 3 of 3", "crashed 4 times"} <= messages


def test_a_doomed_workload_fails_wherever_it_runs() -> None:
    doomed = Hazards(duration_sigma=0.0, doomed=1.0, crash_per_h=0.0, device_mtbf_h=0.0, reclaim=False)
    bench = Bench(BIG, hazards=doomed)
    bench.port.apply(desired(training("t", gang=2)))
    bench.bind_whole("uid-t")
    bench.after(1002.0)
    seen = bench.seen("uid-t")
    assert (seen.failed, seen.succeeded) == (2, 0)
    assert {pod.phase for pod in bench.pods("uid-t")} == {PodPhase.FAILED}
    assert seen.message == "the program ended with an error"


def test_deleting_a_running_workload_frees_its_devices_and_its_end_never_comes() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t", gang=8)))
    bench.bind_whole("uid-t")
    bench.after(500.0)
    bench.port.delete("uid-t")
    bench.port.apply(desired(training("u", gang=8, duration_s=5000.0)))
    bench.bind_whole("uid-u")
    bench.after(2000.0)
    assert [seen.uid for seen in bench.port.fetch_observed()] == ["uid-u"]
    assert bench.seen("uid-u").ready == 8


def test_an_unreachable_cluster_is_a_temporary_error_and_its_pods_live_on() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t")))
    bench.bind_whole("uid-t")
    bench.port.reachable = False
    with pytest.raises(Temporary):
        bench.port.fetch_state()
    bench.after(2000.0)
    bench.port.reachable = True
    assert bench.seen("uid-t").succeeded == 1


def test_a_workload_without_an_estimate_still_ends() -> None:
    bench = Bench(BIG, hazards=CALM)
    bench.port.apply(desired(training("t", duration_s=0.0, classes=(AcceptedClass("big"),))))
    bench.bind_whole("uid-t")
    bench.after(2000.0)
    assert bench.seen("uid-t").succeeded == 1


def test_what_was_foreseen_for_a_deleted_workload_does_not_happen_to_its_next_life() -> None:
    bench = Bench(BIG)
    spec = training("t", duration_s=1000.0)
    bench.port.apply(desired(spec))
    bench.bind_whole("uid-t")
    bench.after(502.0)
    bench.port.delete("uid-t")
    again = desired(spec)
    bench.port.apply(replace(again, placement=replace(again.placement, generation=2)))
    bench.bind_whole("uid-t")
    bench.after(999.0)
    assert bench.seen("uid-t").succeeded == 0, "the end of the first life is past"
    bench.after(3.0)
    assert bench.seen("uid-t").succeeded == 1


def test_a_gang_that_comes_up_needs_nobody_but_its_end_is_heard() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(training("t", duration_s=1000.0)))
    bench.bind_whole("uid-t")
    bench.clock.advance(bench.clock.now() + 5.0)
    assert not bench.port.live_on()
    bench.clock.advance(bench.clock.now() + 1000.0)
    assert bench.port.live_on()
    assert not bench.port.live_on()
    seen = bench.seen("uid-t")
    assert seen.finished_s == pytest.approx((seen.started_s or 0.0) + 1000.0)


def test_a_replica_that_comes_up_is_heard() -> None:
    bench = Bench(BIG)
    bench.port.apply(desired(service("s")))
    bench.bind_whole("uid-s")
    bench.clock.advance(bench.clock.now() + 600.0)
    assert bench.port.live_on()
