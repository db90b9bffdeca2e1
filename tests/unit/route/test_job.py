"""Reading a Job, rewriting it for a class, learning how long its kind takes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.model.errors import InvalidInput
from dure.route.accepts import ACCEPTS, QUEUE, LightRule, check_job, demand_of, kind_of, queue_of, ways_of
from dure.route.durations import KEPT, Durations, decode, encode
from dure.route.rewrite import rewritten
from dure.route.situation import Changes

LIGHT = LightRule(queue="user-cpu")


def job(**metadata: Any) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "6Gi", "nvidia.com/gpu": 1}
    container = {
        "name": "sd",
        "image": "sd:1",
        "env": [{"name": "RUN_ENV", "value": "gpu"}, {"name": "STEPS", "value": "5"}],
        "resources": {"requests": dict(amounts), "limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sd-gpu-1", "labels": {QUEUE: "user-gpu"}, **metadata},
        "spec": {"parallelism": 2, "template": {"spec": {"containers": [container]}}},
    }


def test_a_light_label_means_the_gateways_cpu_queue() -> None:
    ways = ways_of(job(labels={QUEUE: "user-gpu", "workload-type": "light-gpu"}), LIGHT)
    assert [(way.class_name, way.queue) for way in ways] == [("gpu", "user-gpu"), ("cpu", "user-cpu")]
    assert len(ways_of(job(), LIGHT)) == 1


def test_declared_alternatives_start_at_home_and_inherit_the_estimate() -> None:
    declared = "[{class: cpu, queue: user-cpu, speed: 0.25}, {class: t4, queue: user-gpu, speed: 1.0, estimate: 26s}]"
    ways = ways_of(job(annotations={ACCEPTS: declared, "dure.dev/estimate-seconds": "100"}), LIGHT)
    assert [way.queue for way in ways] == ["user-gpu", "user-cpu"]
    assert ways[0].estimate_s == 26.0
    assert ways[1].estimate_s == 100.0


def test_the_first_class_may_leave_out_the_queue_that_the_job_names() -> None:
    ways = ways_of(job(annotations={ACCEPTS: "[{class: t4}, {class: cpu, queue: user-cpu}]"}), LIGHT)
    assert [(way.class_name, way.queue) for way in ways] == [("t4", "user-gpu"), ("cpu", "user-cpu")]


@pytest.mark.parametrize(
    "declared",
    [
        "[",
        "{}",
        "[]",
        "[{queue: a}]",
        "[{class: t4, speed: 0}]",
        "[{class: t4, speeed: 1}]",
        "[{class: a}, {class: b}]",
        "[{class: t4, estimate: 0}]",
        "[{class: t4, estimate: soon}]",
    ],
)
def test_wrong_alternatives_are_refused_with_their_place(declared: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ways_of(job(annotations={ACCEPTS: declared}), LIGHT, "document 2")
    assert "document 2" in caught.value.where


def test_all_containers_and_all_pods_at_once_count() -> None:
    found = job()
    found["spec"]["template"]["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"cpu": "6"}}}]
    found["spec"]["template"]["spec"]["containers"].append({"name": "b", "resources": {"limits": {"cpu": "500m"}}})
    assert demand_of(found)["cpu"] == 2 * 6000
    assert demand_of(found)["nvidia.com/gpu"] == 2000


@pytest.mark.parametrize(
    ("broken", "word"),
    [
        ([], "not an object"),
        ({"apiVersion": "v1", "kind": "Pod"}, "expected a batch/v1 Job"),
        ({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}, "no name"),
        ({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {}}, "'template' is missing"),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "a"},
                "spec": {"template": {"spec": {"containers": [3]}}},
            },
            "no containers",
        ),
    ],
)
def test_what_is_no_job_is_refused(broken: object, word: str) -> None:
    with pytest.raises(InvalidInput, match=word):
        check_job(broken, "job")


def test_nonsense_amounts_are_refused() -> None:
    found = job()
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "-3"
    with pytest.raises(InvalidInput, match="cpu is negative"):
        demand_of(found)
    found["spec"]["parallelism"] = "many"
    with pytest.raises(InvalidInput, match="parallelism"):
        demand_of(found)


def test_the_published_rewriting_is_done_on_a_copy() -> None:
    before = job()
    kept = copy.deepcopy(before)
    made = rewritten(before, "user-cpu", "cpu", LIGHT.changes)
    assert before == kept
    assert made["metadata"]["name"] == "sd-cpu-1"
    assert (made["metadata"]["labels"][QUEUE], made["spec"]["suspend"]) == ("user-cpu", True)
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"cpu": "4", "memory": "6Gi"}, "limits": {}}
    assert {one["name"]: one["value"] for one in container["env"]} == {"RUN_ENV": "cpu", "STEPS": "5"}


def test_image_selector_annotations_and_resources_are_set() -> None:
    changes = Changes(
        resources={"cpu": "8", "example.com/npu": 1},
        node_selector={"pool": "npu"},
        annotations={"a": "b"},
        image="sd:npu",
    )
    made = rewritten(job(), "npu", "atom", changes)["spec"]["template"]
    assert made["spec"]["nodeSelector"] == {"pool": "npu"}
    assert made["metadata"]["annotations"] == {"a": "b"}
    assert made["spec"]["containers"][0]["image"] == "sd:npu"
    assert made["spec"]["containers"][0]["resources"]["requests"]["example.com/npu"] == "1"
    assert changes.recreates
    assert not Changes(resources={"cpu": "8"}).recreates


def test_the_queue_annotation_of_old_manifests_becomes_a_label() -> None:
    old = job(labels={}, annotations={QUEUE: "old"})
    assert queue_of(old) == "old"
    made = rewritten(old, "old", "gpu", Changes())
    assert made["metadata"]["labels"][QUEUE] == "old"
    assert QUEUE not in made["metadata"]["annotations"]


def test_the_kind_is_declared_or_the_command() -> None:
    assert kind_of(job()) == "sd:1"
    assert kind_of(job(annotations={"dure.dev/kind": "sd-5"})) == "sd-5"


def test_estimates_hold_until_enough_was_seen_and_stragglers_do_no_harm() -> None:
    learnt = Durations()
    assert learnt.expected("k", "t4", None) == (60.0, False)
    assert learnt.expected("k", "t4", 30.0) == (30.0, False)
    learnt = learnt.learnt("k", "t4", 20.0)
    assert learnt.expected("k", "t4", 30.0) == (25.0, True)
    for seconds in (20.0, 21.0, 5000.0):
        learnt = learnt.learnt("k", "t4", seconds)
    assert learnt.expected("k", "t4", 30.0) == (20.5, True)
    assert learnt.quantile("k", "t4", 0.9) == 5000.0
    assert learnt.quantile("k", "cpu", 0.5) is None


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=100))
def test_only_possible_times_are_learnt_and_few_are_kept(times: list[float]) -> None:
    learnt = Durations()
    for seconds in times:
        learnt = learnt.learnt("k", "c", seconds)
    seen = [one for kept in learnt.seen.values() for one in kept]
    assert len(seen) <= KEPT
    assert all(0 < one < 1e8 for one in seen)
    assert decode(encode(learnt)) == learnt


def test_a_file_of_something_else_is_no_memory() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b'{"seen": 3}')
