"""The second row: who begins there, who comes forward, and that the system's priorities follow."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, cast

import onnx
import pytest

from dure.adapters.onnx.models import sample_input, write_model
from dure.adapters.onnx.runner import whole_model
from dure.device.config import DeviceConfig, TenantConfig, validated
from dure.device.executor import Executor
from dure.device.lane import BEHIND, Lane
from dure.device.pace import Pace
from dure.device.request import Running
from dure.device.rows import Rows, Scene, may_rank
from dure.device.stage import Stage
from dure.share.interference import App
from dure.share.policies import POLICIES
from dure.share.promise import Promise
from dure.share.squad import Member, Waiting

PATIENCE_S = 120.0
JCT = POLICIES["jct"]


class Process:
    """Remembers in which row a tenant's process was last."""

    behind = False

    def stand_behind(self, behind: bool) -> None:
        self.behind = behind


class Device:
    """Two threads; tenants are known by the milliseconds they have left."""

    def __init__(self, **left_ms: float) -> None:
        self.left_ms = left_ms
        self.processes = {name: Process() for name in left_ms}
        self.now_ms = 0.0
        self.pace = Pace(2)
        self.stage = Stage(2, cast("dict[str, Lane]", self.processes), self.pace, lambda: self.now_ms)
        self.rows = Rows(2, self.stage, self.pace, lambda name, parts: 1.0)

    def waiting(self, name: str) -> Waiting:
        left_ms = self.left_ms[name]
        return Waiting(name, App(name), (left_ms,), left_ms, 0.0, 1e6)

    def begin(self, name: str, parts: int, *, behind: bool = False) -> None:
        run = Running(Member(name, 0, 1, parts), 1, self.now_ms, 0, ())
        self.stage.begin(name, run, behind=behind)

    def arrange(self, *waiting: str) -> None:
        self.rows.arrange(Scene([self.waiting(n) for n in waiting], self.waiting, JCT, self.now_ms))

    @property
    def rowed(self) -> tuple[set[str], set[str]]:
        assert {n for n, process in self.processes.items() if process.behind} == set(self.stage.behind)
        return set(self.stage.running), set(self.stage.behind)


def test_a_long_one_steps_back_for_a_short_one_and_comes_forward_after_it() -> None:
    device = Device(long=40.0, short=3.0)
    device.begin("long", 2)
    device.arrange("short")
    assert device.rowed == (set(), {"long"})
    device.begin("short", 2)
    device.arrange()
    assert device.rowed == ({"short"}, {"long"})
    device.now_ms = 5.0
    device.stage.forget("short")
    device.arrange()
    assert device.rowed == ({"long"}, set())
    assert device.stage.running["long"].behind_ms == 5.0


def test_one_of_the_second_row_takes_the_place_of_a_longer_one() -> None:
    device = Device(long=40.0, short=3.0)
    device.begin("long", 2)
    device.begin("short", 2, behind=True)
    device.arrange()
    assert device.rowed == ({"short"}, {"long"})


def test_nobody_moves_where_the_order_is_right() -> None:
    device = Device(long=40.0, short=3.0, other=30.0)
    device.begin("short", 2)
    device.begin("long", 2, behind=True)
    device.arrange("other")
    assert device.rowed == ({"short"}, {"long"})


def test_time_already_run_counts() -> None:
    device = Device(long=40.0, other=30.0)
    device.begin("long", 2)
    device.now_ms = 15.0
    device.arrange("other")
    assert device.rowed == ({"long"}, set())


def test_the_second_row_has_as_many_as_there_are_threads_and_nobody_with_a_limit() -> None:
    device = Device(a=9.0, b=3.0, c=6.0, paced=1.0)
    device.pace.come(TenantConfig("paced", "m.onnx", limit=0.5), 0.0)
    everybody = [device.waiting(name) for name in device.left_ms]
    assert [one.tenant for one in device.rows.fillers(everybody, JCT)] == ["b", "c"]
    device.begin("b", 1, behind=True)
    assert [one.tenant for one in device.rows.fillers(everybody[2:], JCT)] == ["c"]
    device.begin("paced", 2)
    device.arrange("a")
    assert "paced" in device.stage.running


def niceness(executor: Executor, name: str) -> set[int]:
    tasks = Path(f"/proc/{executor.process_id(name)}/task")
    return {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks.iterdir()}


def test_rows_change_in_mid_piece_with_all_threads_and_the_bits_stay(tmp_path: Path) -> None:
    if not may_rank():
        pytest.skip("this system does not let a process raise a priority that it has lowered")
    shapes: dict[str, dict[str, Any]] = {"convolution": {"blocks": 12, "channels": 64, "side": 64}, "recommender": {}}
    paths = {kind: write_model(kind, tmp_path / f"{kind}.onnx", **shape) for kind, shape in shapes.items()}
    given = {kind: sample_input(onnx.load(str(path))) for kind, path in paths.items()}
    promise = Promise(latency_ms=60_000.0)
    tenants = tuple(TenantConfig(kind, str(path), promise=promise, segments=1) for kind, path in paths.items())
    executor = Executor(validated(DeviceConfig(tenants, cores=2, policy="jct")))
    try:
        for kind in paths:
            executor.submit(kind, given[kind]).result(PATIENCE_S)
        usual = niceness(executor, "convolution")
        assert len(usual) == 1
        seen: set[int] = set()
        until = time.monotonic() + PATIENCE_S
        while executor.stopped == 0 and time.monotonic() < until:
            long = executor.submit("convolution", given["convolution"])
            short = [executor.submit("recommender", given["recommender"]) for _ in range(20)]
            while not short[-1].done():
                seen |= niceness(executor, "convolution")
            for kind, answers in (("convolution", [long]), ("recommender", short)):
                expected = whole_model(paths[kind], given[kind])["output"].tobytes()
                assert all(one.result(PATIENCE_S)["output"].tobytes() == expected for one in answers)
        assert executor.stopped > 0
        assert seen <= {*usual, BEHIND}
        assert BEHIND in seen
        executor.submit("convolution", given["convolution"]).result(PATIENCE_S)
        assert niceness(executor, "convolution") == usual
    finally:
        executor.close()


@pytest.mark.parametrize("wanted", [True, False])
def test_without_the_right_to_rank_or_the_wish_everything_runs_in_one_row(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dure.device.executor.may_rank", lambda: not wanted)
    path = write_model("recommender", tmp_path / "m.onnx")
    given = sample_input(onnx.load(str(path)))
    tenants = tuple(TenantConfig(name, str(path)) for name in "abc")
    executor = Executor(validated(DeviceConfig(tenants, cores=2, second_row=wanted)))
    try:
        asked = [executor.submit(name, given) for _ in range(5) for name in "abc"]
        expected = whole_model(path, given)["output"].tobytes()
        assert all(one.result(PATIENCE_S)["output"].tobytes() == expected for one in asked)
        assert executor.stopped == 0
        assert all(BEHIND not in niceness(executor, name) for name in "abc")
    finally:
        executor.close()
