"""Submissions that come while others are written share a transaction, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from dure.api.intake import Intake
from dure.model.demand import Demand
from dure.model.errors import Conflict, Crowded, DureError, Temporary
from dure.model.who import PLANE
from dure.model.workload import AcceptedClass, Workload, WorkloadRecord, WorkloadType
from dure.ports import Wish
from tests.unit.api.clients import Client
from tests.unit.api.small_world import SmallWorld


class SlowWorld(SmallWorld):
    """Writes a group only when it may, and remembers how large each was."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Semaphore(0)
        self.began = threading.Semaphore(0)
        self.groups: list[int] = []
        self.broken: DureError | None = None

    def submit_all(self, wishes: Sequence[Wish]) -> list[WorkloadRecord | DureError]:
        self.groups.append(len(wishes))
        self.began.release()
        self.may_write.acquire()
        if self.broken is not None:
            raise self.broken
        return super().submit_all(wishes)


def wish(name: str) -> Wish:
    spec = Workload(name, "vision", WorkloadType.BATCH, (AcceptedClass("t4"),), Demand(devices=1))
    return Wish(spec, "", PLANE, "POST /v1/workloads")


async def gathered(world: SlowWorld, intake: Intake, names: Sequence[str]) -> list[asyncio.Task[WorkloadRecord]]:
    """The first is being written, the others wait."""
    tasks = [asyncio.create_task(intake.submit(wish(names[0])))]
    await asyncio.to_thread(world.began.acquire)
    tasks += [asyncio.create_task(intake.submit(wish(name))) for name in names[1:]]
    await asyncio.sleep(0)
    return tasks


async def test_those_who_come_while_one_is_written_are_written_together() -> None:
    world = SlowWorld()
    tasks = await gathered(world, Intake(world), ["a", "b", "c", "d"])
    world.may_write.release(2)
    made = await asyncio.gather(*tasks)
    assert world.groups == [1, 3]
    assert [one.name for one in made] == ["a", "b", "c", "d"]


async def test_what_is_wrong_with_one_does_not_concern_the_others() -> None:
    world = SlowWorld()
    tasks = await gathered(world, Intake(world), ["a", "a", "b"])
    world.may_write.release(2)
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(second, Conflict)
    assert [one.name for one in (first, third) if isinstance(one, WorkloadRecord)] == ["a", "b"]


async def test_who_hangs_up_takes_nobody_along_and_is_kept_all_the_same() -> None:
    world = SlowWorld()
    tasks = await gathered(world, Intake(world), ["a", "b", "c"])
    tasks[1].cancel()
    world.may_write.release(2)
    await asyncio.wait(tasks)
    assert tasks[2].result().name == "c"
    assert world.store.fetch_workload("b").name == "b"


async def test_a_store_that_takes_nothing_says_so_to_each_and_is_asked_again_by_the_next() -> None:
    world = SlowWorld()
    intake = Intake(world)
    tasks = await gathered(world, intake, ["a", "b"])
    world.broken = Temporary("the disk is full")
    world.may_write.release(2)
    refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(one) for one in refused] == ["the disk is full"] * 2
    world.broken = None
    world.may_write.release()
    assert (await intake.submit(wish("a"))).name == "a"


@pytest.mark.parametrize("count", [1, 7])
async def test_an_intake_at_rest_has_nothing_running(count: int) -> None:
    world = SlowWorld()
    world.may_write.release(count)
    intake = Intake(world)
    await asyncio.gather(*(intake.submit(wish(f"n-{number}")) for number in range(count)))
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_a_full_queue_is_answered_with_429_and_when_to_come_back(
    client: Client, world: SmallWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Crowded("3 workloads of tenant 'vision' wait already", remedy="Submit again later.")
    monkeypatch.setattr(world, "submit_all", lambda wishes: [full for _ in wishes])
    document = b"""{"apiVersion": "dure.dev/v1alpha1", "kind": "Workload",
    "metadata": {"name": "n", "tenant": "vision"},
    "spec": {"type": "batch", "classes": ["t4"], "demand": {"devices": 1}, "duration": "1h"}}"""
    answer = client.post("/v1/workloads", content=document, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["title"] == "Too many waiting"
    assert answer.json()["detail"] == full.message
