"""Slices that share threads in time: who stops for whom, and that stopping costs nobody an answer or a process."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path

import numpy as np
import onnx
import pytest

from dure.adapters.onnx.models import sample_input, write_model
from dure.adapters.onnx.runner import whole_model
from dure.device.config import DeviceConfig, TenantConfig
from dure.device.cores import own, shared_out
from dure.device.executor import Executor
from dure.device.pace import KEPT, Pace

PATIENCE_S = 120.0
HOLDER = """
import sys
from dure.adapters.onnx.worker import Work
from dure.device.config import TenantConfig
from dure.device.ears import Ears
from dure.device.lane import Lane
if __name__ == "__main__":
    lane = Lane(TenantConfig("a", sys.argv[1]), Work(sys.argv[1], 8), Ears())
    assert lane.receive()[0] == "ready"
    lane.pause()
    print(lane.process_id, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model("convolution", tmp_path_factory.mktemp("models") / "m.onnx", seed=5)


def pace(cores: int, **limits: float) -> Pace:
    made = Pace(cores)
    for name, limit in limits.items():
        made.come(TenantConfig(name, "m.onnx", limit=limit), 0.0)
    return made


def test_the_longest_backlog_stops_for_whoever_has_less_inside() -> None:
    made = pace(1, a=0.4, b=0.3, c=0.3)
    assert made.yields({"a": 1}, {"b": 3, "c": 8}) == "c"
    assert made.yields({"a": 1}, {"b": 1}) is None
    assert made.yields({"a": 9}, {"b": 8}) is None
    assert made.first({"a": 5, "b": 1, "c": 2}, free=1) == {"b"}


def test_whole_threads_and_tenants_without_a_limit_are_never_stopped() -> None:
    made = pace(2, whole=0.5, paced=0.25, free=0.0)
    assert made.yields({"paced": 1}, {"whole": 9, "free": 9}) is None
    assert made.yields({"whole": 1, "free": 1}, {"paced": 9}) is None


def test_slices_of_one_thread_leave_room_for_hand_overs() -> None:
    made = pace(1, a=0.5, b=0.5)
    for name in ("a", "b"):
        made.begin(name)
        made.spend(name, 1000.0, 1, 900.0, 900.0)
    # 900 ms less what was saved up, at half of what nobody keeps.
    assert made.wait_ms("a", 1000.0) == pytest.approx(900.0 / (0.5 * (1.0 - KEPT)) - 20.0)


def test_a_device_has_processors_of_its_own_only_where_the_host_keeps_some() -> None:
    assert own({0, 1, 2, 3}, 1, 2) == (frozenset({2}), frozenset({3}))
    assert own({4, 6, 7}, 2, 1) == (frozenset({6, 7}),)
    assert own({0, 1}, 2, 1) == (frozenset(),)
    assert own({0, 1}, 1, 2) == (frozenset(), frozenset())


def test_the_host_keeps_a_core_unless_its_owner_gives_it_away() -> None:
    assert [shared_out(0, machine) for machine in (1, 2, 8)] == [1, 1, 7]
    assert shared_out(2, 2) == 2


def test_a_greedy_tenant_is_stopped_for_its_neighbour_and_both_get_the_same_bits_as_alone(model: Path) -> None:
    tenants = tuple(TenantConfig(name, str(model), limit=0.5) for name in ("greedy", "modest"))
    executor = Executor(DeviceConfig(tenants, cores=1, admission=False))
    given = sample_input(onnx.load(str(model)))
    expected = whole_model(model, given)["output"]
    answers = []
    try:
        # A backlog that never ends, so that it is at work whenever the other one asks.
        inside = deque(executor.submit("greedy", given) for _ in range(8))
        for _ in range(500):
            answers.append(executor.submit("modest", given).result(PATIENCE_S))
            while inside[0].done():
                answers.append(inside.popleft().result())
                inside.append(executor.submit("greedy", given))
            if executor.stopped:
                break
        assert executor.stopped
        answers += [one.result(PATIENCE_S) for one in inside]
        assert executor.starts("greedy") == executor.starts("modest") == 1
        spans, *_ = executor.record.timeline(0.0)
        assert all(0.0 <= span.used_ms <= span.end_ms - span.start_ms for span in spans)
    finally:
        executor.close()
    for answer in answers:
        np.testing.assert_array_equal(answer["output"], expected)


def test_a_stopped_process_does_not_outlive_a_daemon_that_is_killed(model: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        pidfd = os.pidfd_open(worker)
        os.kill(holder.pid, signal.SIGKILL)
    assert select.select([pidfd], [], [], PATIENCE_S)[0]
    os.close(pidfd)
