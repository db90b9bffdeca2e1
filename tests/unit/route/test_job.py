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


def test_what_was_read_of_a_job_is_left_out_of_the_one_that_is_made() -> None:
    before = job()
    before["status"] = {"active": 1}
    made = rewritten(before, "q", "cpu", Changes(), {"note": "n"}, {"mark": "m"})
    assert "status" not in made
    assert made["metadata"]["labels"] == {QUEUE: "q", "mark": "m"}
    assert made["metadata"]["annotations"] == {"dure.dev/class": "cpu", "note": "n"}
    assert made["spec"]["suspend"] is True
    free = rewritten(before, "", "cpu", Changes(name=":x"))
    assert "suspend" not in free["spec"]
    assert (free["metadata"]["labels"], free["metadata"]["name"]) == ({QUEUE: "user-gpu"}, "sd-gpu-1")


def test_entries_are_set_where_they_stood_or_as_requests_and_removed_by_none() -> None:
    before = job()
    pod = before["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "init", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "c"}]}}]
    pod["nodeSelector"] = {"keep": "1", "drop": "1"}
    changes = Changes(
        resources={"cpu": 2, "nvidia.com/gpu": None, "disk": "9Gi"},
        env={"STEPS": None, "NEW": "1"},
        node_selector={"drop": None, "add": "2"},
        image="sd:cpu",
    )
    made = rewritten(before, "q", "cpu", changes)["spec"]["template"]["spec"]
    [init], [main] = made["initContainers"], made["containers"]
    assert init["resources"] == {"limits": {"cpu": "2"}, "requests": {"disk": "9Gi"}, "claims": [{"name": "c"}]}
    assert main["resources"] == {"requests": {"cpu": "2", "memory": "6Gi", "disk": "9Gi"}, "limits": {}}
    assert main["env"] == [{"name": "RUN_ENV", "value": "gpu"}, {"name": "NEW", "value": "1"}]
    assert made["nodeSelector"] == {"keep": "1", "add": "2"}
    assert main["image"] == "sd:cpu"
    assert "env" not in init


def test_a_light_job_takes_longer_by_the_speed_of_the_other_class_and_home_is_full_speed() -> None:
    rule = LightRule(queue="user-cpu", speed=0.25)
    labels = {QUEUE: "user-gpu", "workload-type": "light-gpu"}
    first, second = ways_of(job(labels=labels, annotations={"dure.dev/estimate-seconds": "10"}), rule)
    assert (first.speed, first.estimate_s, second.speed, second.estimate_s) == (1.0, 10.0, 0.25, 40.0)
    assert [way.estimate_s for way in ways_of(job(labels=labels), rule)] == [None, None]
    assert len(ways_of(job(labels=labels), LightRule())) == 1
    assert len(ways_of(job(labels={QUEUE: "user-gpu", "workload-type": "other"}), rule)) == 1
    bare = job(labels={QUEUE: "q"})
    bare["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    assert [way.class_name for way in ways_of(bare, rule)] == ["cpu"]


def test_an_estimate_is_of_the_first_class_and_scaled_by_the_speeds() -> None:
    declared = (
        "[{class: a, queue: x, speed: 2.0}, {class: b, queue: y, speed: 0.5}, {class: c, queue: z, estimate: 7}]"
    )
    ways = ways_of(job(annotations={ACCEPTS: declared, "dure.dev/estimate-seconds": "10s"}), LIGHT)
    assert [(way.speed, way.estimate_s) for way in ways] == [(2.0, 10.0), (0.5, 40.0), (1.0, 7.0)]
    nothing = ways_of(job(annotations={ACCEPTS: declared}), LIGHT)
    assert [way.estimate_s for way in nothing] == [None, None, 7.0]


@pytest.mark.parametrize(
    ("value", "ok"), [("1e7", True), ("99999999", True), ("1e8", False), ("0", False), ("x", False)]
)
def test_an_estimate_is_a_possible_time(value: str, ok: bool) -> None:
    asked = job(annotations={"dure.dev/estimate-seconds": value})
    if ok:
        assert ways_of(asked, LIGHT)[0].estimate_s == float(value)
    else:
        with pytest.raises(InvalidInput, match=r"estimate-seconds"):
            ways_of(asked, LIGHT)


@pytest.mark.parametrize(("count", "ok"), [(0, False), (1, True), (16, True), (17, False)])
def test_one_to_sixteen_classes_may_be_named(count: int, ok: bool) -> None:
    declared = "[" + ", ".join(f"{{class: c{n}, queue: q{n}}}" for n in range(count)) + "]"
    asked = job(annotations={ACCEPTS: declared})
    if ok:
        assert len(ways_of(asked, LIGHT)) == count
    else:
        with pytest.raises(InvalidInput, match=f"names {count} classes"):
            ways_of(asked, LIGHT)


def test_an_init_container_counts_by_what_it_needs_more_than_those_that_run() -> None:
    asked = job()
    pod = asked["spec"]["template"]["spec"]
    pod["initContainers"] = [{"resources": {"limits": {"cpu": "9", "memory": "1Gi", "disk": 1}}}]
    found = demand_of(asked)
    assert (found["cpu"], found["disk"], found["nvidia.com/gpu"]) == (18_000, 2_000, 2_000)
    assert found["memory"] == demand_of(job())["memory"]
    for pods, ok in ((0, True), (100_000, True), (100_001, False), (-1, False), (True, False), ("2", False)):
        asked["spec"]["parallelism"] = pods
        if ok:
            assert demand_of(asked)["cpu"] == 9_000 * int(pods)
        else:
            with pytest.raises(InvalidInput, match="makes no sense"):
                demand_of(asked)
