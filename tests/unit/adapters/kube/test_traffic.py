"""Reading requests off the metrics of pods: known names only, counters that begin again, unknown is not zero."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kube.exposition import samples_of
from dure.adapters.kube.objects import KubePod, Meta, PodStatus
from dure.adapters.kube.reading import url_of
from dure.adapters.kube.traffic import Count, added, count_of
from tests.fixtures.engine_metrics import VLLM


def pod(**annotations: str) -> KubePod:
    said = {f"prometheus.io/{key}": value for key, value in annotations.items()}
    return KubePod(metadata=Meta(annotations=said), status=PodStatus(phase="Running", pod_ip="10.1.2.3"))


def test_requests_are_summed_over_models_and_those_within_the_promise_counted() -> None:
    assert count_of(samples_of(VLLM), 500.0) == Count(11, 8)


def test_a_promise_between_two_bounds_counts_only_what_is_surely_within_it() -> None:
    assert count_of(samples_of(VLLM), 450.0) == Count(11, 5)


def test_a_promise_below_every_bound_and_no_promise_leave_the_good_ones_unknown() -> None:
    assert count_of(samples_of(VLLM), 100.0) == count_of(samples_of(VLLM), None) == Count(11, None)


def test_metrics_without_a_known_histogram_say_nothing() -> None:
    assert count_of(samples_of("up 1\n"), 500.0) is None
    assert count_of(samples_of("this is { no metrics"), 500.0) is None
    assert count_of(samples_of(""), 500.0) is None


def test_a_pod_is_asked_only_where_it_says_so() -> None:
    assert url_of(pod(scrape="true", port="8000")) == "http://10.1.2.3:8000/metrics"
    assert url_of(pod(scrape="true", port="8000", path="/m", scheme="https")) == "https://10.1.2.3:8000/m"
    assert [url_of(pod(port="8000")), url_of(pod(scrape="true")), url_of(pod(scrape="true", port="a@b"))] == [""] * 3
    assert url_of(pod(scrape="true", port="1", scheme="file")) == ""


def test_nothing_read_leaves_the_status_as_it_is() -> None:
    assert added({}, {}, ["a"]) == {}


def test_a_pod_that_is_gone_is_forgotten_and_its_requests_are_kept() -> None:
    status = {"requests": 10, "requestsGood": 9, "traffic": {"a": [10, 9]}}
    assert added(status, {}, []) == {"requests": 10, "requestsGood": 9, "traffic": {"a": None}}


@given(st.lists(st.integers(0, 50), max_size=20))
def test_the_sum_never_falls_and_a_counter_that_fell_has_begun_again(shown: list[int]) -> None:
    status: dict[str, Any] = {}
    answered = before = 0
    for counter in shown:
        changes = added(status, {"a": Count(counter, counter)}, ["a"])
        status = {**status, **changes}
        answered += counter - before if counter >= before else counter
        before = counter
        assert (status["requests"], status["requestsGood"]) == (answered, answered)


def test_two_pods_are_two_counters() -> None:
    first = added({}, {"a": Count(5, 4), "b": Count(7, None)}, ["a", "b"])
    assert first == {"requests": 12, "requestsGood": 4, "traffic": {"a": [5, 4], "b": [7, None]}}
    assert added(first, {"b": Count(8, None)}, ["a", "b"]) == {
        "requests": 13,
        "requestsGood": 4,
        "traffic": {"b": [8, None]},
    }


def test_who_waits_is_summed_over_pods_and_forgotten_where_no_queue_is_shown() -> None:
    first = added({}, {"a": Count(5, 4, 7), "b": Count(7, None, 2)}, ["a", "b"])
    assert first["waiting"] == 9
    assert first["traffic"] == {"a": [5, 4], "b": [7, None]}, "a queue is a level: its past is not needed"
    assert added(first, {"a": Count(5, 4, 7), "b": Count(7, None, 2)}, ["a", "b"]) == {}
    assert added(first, {"a": Count(5, 4, 3), "b": Count(7, None)}, ["a", "b"]) == {"waiting": 3}
    assert added(first, {}, ["a", "b"]) == {"waiting": None}


def test_an_engine_that_shows_its_queue_is_read_and_one_without_is_unknown() -> None:
    without = Count(11, 8)
    assert count_of(samples_of(VLLM), 500.0) == without
    queues = 'vllm:num_requests_waiting{model_name="m"} 3\nvllm:num_requests_waiting{model_name="n"} 4\n'
    assert count_of(samples_of(VLLM + queues), 500.0) == without._replace(waiting=7)
    assert count_of(samples_of(VLLM + "tgi_queue_size 0\n"), 500.0) == without._replace(waiting=0)
    assert count_of(
        samples_of(VLLM + 'nv_inference_pending_request_count{model="m"} 4\n'), 500.0
    ) == without._replace(waiting=4)
