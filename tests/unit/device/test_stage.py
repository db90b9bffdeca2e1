"""Who is stopped for whom, and when its process hears of it."""

from __future__ import annotations

from typing import Any, cast

from dure.device.config import TenantConfig
from dure.device.lane import Lane
from dure.device.pace import Pace
from dure.device.request import Running
from dure.device.stage import Stage
from dure.share.squad import Member


class Process:
    """Remembers the signals that a tenant's process would have got."""

    def __init__(self) -> None:
        self.got: list[str] = []

    def pause(self) -> None:
        self.got.append("stop")

    def resume(self) -> None:
        self.got.append("go on")

    def stand_behind(self, behind: bool) -> None:
        assert not behind


def stage_with_a_backlog() -> tuple[Stage, Process, list[float]]:
    pace, clock = Pace(1), [0.0]
    for name in ("greedy", "modest"):
        pace.come(TenantConfig(name, "m.onnx", limit=0.5), 0.0)
    process = Process()
    lanes: dict[str, Any] = {"greedy": process}
    stage = Stage(1, cast("dict[str, Lane]", lanes), pace, lambda: clock[0])
    stage.begin("greedy", Running(Member("greedy", 0, 8, 1), 1, 0.0, 0, ()))
    stage.make_room({"modest": 1}, {"greedy": 8, "modest": 1})
    return stage, process, clock


def test_a_thread_is_free_before_its_holder_is_stopped() -> None:
    stage, process, _ = stage_with_a_backlog()
    assert stage.free() == 1
    assert process.got == []
    stage.hold()
    stage.hold()
    assert process.got == ["stop"]
    assert stage.stopped == 1


def test_one_who_goes_on_at_once_never_hears_of_it() -> None:
    stage, process, _ = stage_with_a_backlog()
    stage.resume("greedy")
    stage.hold()
    assert process.got == []
    assert (stage.stopped, stage.free()) == (0, 0)


def test_time_spent_stopped_is_counted_and_a_failed_one_can_hear_of_its_end() -> None:
    stage, process, clock = stage_with_a_backlog()
    stage.hold()
    run = stage.paused["greedy"]
    clock[0] = 7.0
    stage.forget("greedy")
    assert process.got == ["stop", "go on"]
    assert run.paused_ms == 7.0
    assert not stage.running
    assert not stage.paused
