"""How far a gang is, from what its Placement and its pods show; the next size never takes credit for the last one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dure.adapters.kube import manifests
from dure.adapters.kube.objects import KubeJob, KubePlacement
from dure.adapters.kube.progress import observed
from dure.model.cluster import Pod, PodPhase
from dure.model.report import Desired
from dure.model.workload import SpeedUp
from tests.fixtures.small_world import CATALOGUE, desired, training

SPEEDS = (SpeedUp(2, 1.0), SpeedUp(4, 1.5))
GANG = replace(training("t", gang=2), speedups=SPEEDS, checkpoint_s=600.0, duration_s=7200.0)


def placement(wanted: Desired, **status: object) -> KubePlacement:
    spec = manifests.placement(wanted)["spec"]
    return msgspec.convert({"metadata": {"name": "t"}, "spec": spec, "status": status}, KubePlacement)


def members(generation: int, size: int) -> list[Pod]:
    one = manifests.ask(desired(GANG, generation=generation), CATALOGUE, 0.0, cut=False).pod
    return [
        replace(one, name=f"t-{at}", index=at, node="n", phase=PodPhase.RUNNING, started_s=1000.0)
        for at in range(size)
    ]


def job(**status: Any) -> KubeJob:
    return msgspec.convert({"metadata": {"name": "t"}, "status": status}, KubeJob)


def test_a_larger_gang_does_more_between_two_checkpoints() -> None:
    done = []
    for size in (2, 4):
        wanted = desired(GANG, replicas=size, done_s=600.0)
        seen = observed(placement(wanted, applied=1), wanted, members(1, size), job(), 1000.0 + 1300.0)
        done.append(seen.done_s)
    assert done == [600.0 + 1200.0, 600.0 + 1200.0 * 1.5]


@pytest.mark.parametrize("pods", [members(1, 2), []])
def test_a_new_size_that_has_no_members_yet_has_done_nothing_more(pods: list[Pod]) -> None:
    """The earlier set still runs, or is on its way out; its start is still in the status."""
    wanted = desired(GANG, generation=2, replicas=4, done_s=1800.0)
    seen = observed(placement(wanted, applied=1, startedSeconds=1000.0), wanted, pods, None, 9000.0)
    assert (seen.generation, seen.pods, seen.bound, seen.ready) == (2, 0, 0, 0)
    assert (seen.started_s, seen.done_s) == (None, 1800.0)


def test_a_gang_that_failed_keeps_what_its_checkpoints_hold_and_no_more() -> None:
    wanted = desired(GANG, replicas=2)
    failed = job(conditions=[{"type": "Failed", "status": "True"}])
    held = placement(wanted, applied=1, startedSeconds=1000.0)
    assert observed(held, wanted, (), failed, 1000.0 + 1300.0).done_s == 1200.0
    bare = desired(replace(GANG, checkpoint_s=0.0), replicas=2)
    assert observed(placement(bare, applied=1, startedSeconds=1000.0), bare, (), failed, 2300.0).done_s == 0.0


def test_what_the_pods_say_of_their_checkpoints_counts_and_not_the_clock() -> None:
    wanted = desired(GANG, replicas=2, done_s=600.0)
    said = {"savedGeneration": 1, "savedSeconds": 1500.0, "savedWorkSeconds": 500.0}
    seen = observed(placement(wanted, applied=1, **said), wanted, members(1, 2), job(), 1000.0 + 1300.0)
    assert (seen.done_s, seen.saved_s) == (600.0 + 500.0, 1500.0)
    none = {**said, "savedSeconds": 0.0, "savedWorkSeconds": 0.0}
    seen = observed(placement(wanted, applied=1, **none), wanted, members(1, 2), job(), 1000.0 + 1300.0)
    assert (seen.done_s, seen.saved_s) == (600.0, 0.0), "none yet, however long it has run"


def test_what_the_pods_of_an_earlier_generation_said_is_not_this_ones() -> None:
    wanted = desired(GANG, generation=2, replicas=2, done_s=600.0)
    said = {"savedGeneration": 1, "savedSeconds": 1500.0, "savedWorkSeconds": 500.0}
    seen = observed(placement(wanted, applied=2, **said), wanted, members(2, 2), job(), 1000.0 + 1300.0)
    assert (seen.done_s, seen.saved_s) == (600.0 + 1200.0, None)


def test_all_work_is_safe_once_it_has_ended_well_whatever_was_saved_last() -> None:
    wanted = desired(GANG, replicas=2)
    said = {"savedGeneration": 1, "savedSeconds": 1500.0, "savedWorkSeconds": 500.0, "startedSeconds": 1000.0}
    complete = job(conditions=[{"type": "Complete", "status": "True"}])
    assert observed(placement(wanted, applied=1, **said), wanted, (), complete, 2300.0).done_s == 1300.0


def test_pods_of_a_gang_are_told_how_many_they_are_and_a_dry_run_sleeps_for_what_is_left() -> None:
    wanted = desired(GANG, generation=2, replicas=4, done_s=1200.0)
    body = manifests.job(wanted, {}, manifests.ask(wanted, CATALOGUE, 0.0, cut=False))
    [container] = body["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "DURE_GANG_SIZE", "value": "4"}]
    assert container["command"] == ["sleep", "4000"]
    said = (
        '{"spec": {"containers": [{"name": "a", "image": "x", "env": [{"name": "DURE_GANG_SIZE", "value": "9"}]}]}}'
    )
    own = replace(wanted, spec=replace(GANG, template=said))
    body = manifests.job(own, {}, manifests.ask(own, CATALOGUE, 0.0, cut=False))
    assert body["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "DURE_GANG_SIZE", "value": "9"}]
