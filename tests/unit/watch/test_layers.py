"""Counters of devices, figures of engines and people's words, joined by pod."""

from __future__ import annotations

import pytest

from dure.model.sample import Sample
from dure.watch.layers import OWNERS, joined, slowness

POD = {"namespace": "dure-search", "pod": "chat-0"}
PLACE = {**POD, "node": "n1", "device": "3"}


def scraped(throttled: tuple[float, ...]) -> list[Sample]:
    owner = {**POD, "label_dure_dev_workload": "chat", "label_dure_dev_tenant": "search"}
    counted = [
        Sample("dure_device_power_throttle_seconds_total", PLACE, 15.0 * step, value)
        for step, value in enumerate(throttled)
    ]
    return [
        Sample(OWNERS, owner, 0.0, 1.0),
        Sample("dure_device_busy_ratio", PLACE, 0.0, 0.2),
        Sample("dure_device_busy_ratio", PLACE, 15.0, 0.9),
        Sample("dure_serving_waiting_count", {**POD, "model": "m"}, 15.0, 7.0),
        Sample("dure_device_busy_ratio", {"node": "n1", "device": "4"}, 15.0, 0.5),
        *counted,
    ]


def test_a_workload_on_a_device_has_its_counters_its_queue_and_what_was_said() -> None:
    (line,) = joined(scraped((0.0, 3.0, 6.0)), {"chat": ("too-slow",)})
    assert (line.tenant, line.workload, line.node, line.device) == ("search", "chat", "n1", "3")
    assert line.hardware["dure_device_busy_ratio"] == 0.9
    assert line.software == {"dure_serving_waiting_count": 7.0}
    assert line.throttled == pytest.approx(0.2)
    assert line.said == ("too-slow",)


def test_a_throttled_device_is_slower_by_the_time_it_lost_and_a_counter_may_begin_again() -> None:
    assert slowness(joined(scraped((0.0, 3.0, 6.0)), {})) == {"chat": pytest.approx(1.25)}
    assert slowness(joined(scraped((9.0, 0.0, 3.0)), {})) == {"chat": pytest.approx(1 / 0.9)}
    assert slowness(joined(scraped((0.0, 0.0)), {})) == {"chat": 1.0}


def test_a_pod_that_nobody_owns_is_left_out() -> None:
    assert joined([Sample("dure_device_busy_ratio", PLACE, 0.0, 0.2)], {}) == ()
