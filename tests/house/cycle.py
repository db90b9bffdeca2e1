"""What one turn of the plane costs with 1,000 devices and 10,000 jobs, and where the time goes.

    make cycle                             seconds of CPU of the turns that occur
    make cycle ARGS="--jobs 2000 --profile"      the dearest functions of each

Everything is in memory and in virtual time, so that the figures are those of the decision and its records.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable

from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.week import START_S
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.files.builtin import catalogue
from dure.model.demand import Demand
from dure.model.fleet import Fleet
from dure.model.workload import AcceptedClass, Workload, WorkloadType

DEVICES_PER_NODE = 8
CLASSES = ("h100-80gb-sxm", "a100-80gb-sxm", "l40s", "t4")
TENANTS = ("vision", "search", "speech")


def fleet_of(devices: int) -> Fleet:
    """As many nodes of each class, one cluster each."""
    nodes = devices // DEVICES_PER_NODE // len(CLASSES)
    clusters = "".join(
        f"    - {{name: c{at}, region: kr-seoul, grid: KR, connect: {{embedded: {{}}}}, pools: [{{name: p, "
        f"class: {name}, nodes: {nodes}, devices: {DEVICES_PER_NODE}, price: {{owned: {2000 >> at}/h}}}}]}}\n"
        for at, name in enumerate(CLASSES)
    )
    tenants = "".join(f"    - {{name: {name}}}\n" for name in TENANTS)
    head = "apiVersion: dure.dev/v1alpha1\nkind: Fleet\nmetadata: {name: cycle}\nspec:\n"
    return read_text(f"{head}  clusters:\n{clusters}  tenants:\n{tenants}", "cycle").fleets[0]


def jobs_of(count: int) -> list[Workload]:
    """Half an hour to two days long, on one to eight devices, for the classes from their first on."""
    return [
        Workload(
            name=f"job-{number}",
            tenant=TENANTS[number % len(TENANTS)],
            type=WorkloadType.TRAINING,
            classes=tuple(AcceptedClass(name, 1.0 / (1 + at)) for at, name in enumerate(CLASSES[number % 3 :])),
            demand=Demand(devices=1 << number % 4),
            duration_s=1800.0 * (1 + number % 97),
        )
        for number in range(count)
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description="cost of a decision cycle")
    arguments.add_argument("--devices", type=int, default=1000)
    arguments.add_argument("--jobs", type=int, default=10_000)
    arguments.add_argument("--profile", action="store_true", help="show the dearest functions of each turn")
    asked = arguments.parse_args()
    clock = VirtualClock(START_S)
    world = EmbeddedWorld(fleet_of(asked.devices), catalogue(), MemoryStore(), clock, seed=1)
    world.step()
    few, *rest = jobs_of(asked.jobs + 1)
    world.submit(rest)
    turns: list[tuple[str, Callable[[], int]]] = [
        ("all jobs are new", world.plane.cycle),
        ("nothing has happened", world.plane.cycle),
        ("the agents have begun", lambda: _later(world, clock, 10.0)),
        ("one more job", lambda: _with(world, replace(few, name="late"))),
        ("ten minutes later", lambda: _later(world, clock, 600.0)),
    ]
    for what, turn in turns:
        profile = cProfile.Profile() if asked.profile else None
        began_s = time.process_time()
        found = profile.runcall(turn) if profile else turn()
        print(f"{what:24} {time.process_time() - began_s:7.2f} s of CPU   {found}", flush=True)
        if profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)


def _with(world: EmbeddedWorld, job: Workload) -> int:
    world.submit([job])
    return world.plane.cycle()


def _later(world: EmbeddedWorld, clock: VirtualClock, seconds: float) -> bool:
    clock.advance(clock.now() + seconds)
    return world.step()


if __name__ == "__main__":
    main()
