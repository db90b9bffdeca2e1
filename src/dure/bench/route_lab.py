"""The routing experiment on a real Kueue: lab cluster, KWOK pods, the gateway in between. For `bench.route`.

Everything is `factor` times faster than in the published experiment and told in its seconds again. What a Job costs
besides running (admission, pod start, noticing the end) is measured in each run and belongs to the true durations:
the optimum and the simulation of the same run count it as well.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click
import msgspec
from msgspec.structs import replace

from dure.adapters.kube.rest import Api
from dure.bench.progress import Journal
from dure.bench.result import Cell, Result, Row
from dure.bench.route_objects import QUEUES, job_of, nodes_of, queues_of
from dure.bench.route_plots import figures
from dure.bench.route_sim import play
from dure.gateway.desk import Caller
from dure.gateway.process import Gateway
from dure.gateway.settings import Settings
from dure.model.errors import InvalidInput, NotFound, Temporary
from dure.model.units import Seconds
from dure.route.policies import looks_again
from dure.sim.queues.mix import Mix, MixJob
from dure.sim.queues.optimum import optimum
from dure.sim.queues.world import Laws, Run, Stay

FASTEST = 5.0
LONGEST_S = 1200.0
# Before the first run nothing is known of what a Job costs besides running.
FIRST_COST_S = 1.5
Wanted: TypeAlias = tuple[Mix, str, int]


class Seen(NamedTuple):
    """A run in real seconds since its first submission. `written_s`: when each queue's counters changed."""

    run: Run
    cost_s: Seconds
    arrivals: Mapping[str, Seconds]
    written_s: Mapping[str, tuple[Seconds, ...]]


class Measured(msgspec.Struct, frozen=True):
    """A finished run, as it is kept to go on from."""

    row: dict[str, Cell]
    run: Run
    cost_s: Seconds


def measure(
    mixes: Sequence[Mix], policies: Sequence[str], factor: float, repeats: int, seed: int, resume: Path | None = None
) -> tuple[Result, list[Any]]:
    """Repeat by repeat, so that a run cut short still has some of each; with `resume` only what is missing is run."""
    if not 1.0 <= factor <= FASTEST:
        raise InvalidInput(f"--factor must be from 1 to {FASTEST:g}: what Jobs cost besides running does not shrink")
    for mix in mixes:
        if set(mix.queues) != set(QUEUES):
            raise InvalidInput(f"scenario '{mix.name}': the real Kueue here has the queues gpu and cpu")
    wanted = [(mix, name, seed + repeat) for repeat in range(repeats) for mix in mixes for name in policies]
    digest = hashlib.blake2b(msgspec.json.encode(mixes), digest_size=8).hexdigest()
    kept = Journal(resume, Measured, f"route factor={factor:g} mixes={digest}")
    found = [kept.get(_key(one)) for one in wanted]
    if not all(found):
        found = _run_missing(wanted, found, factor, kept)
    done = [one for one in found if one is not None]
    rows: list[Row] = [one.row for one in done]
    shown = {(mix.name, name): one.run for (mix, name, _), one in zip(wanted, done, strict=True)}
    return Result("route", rows, _summary(rows, factor)), figures(rows, shown)


def _run_missing(
    wanted: Sequence[Wanted], kept: Sequence[Measured | None], factor: float, journal: Journal[Measured]
) -> list[Measured | None]:
    found: list[Measured | None] = []
    cost_s = FIRST_COST_S
    with lab_of_this_checkout()(["hub"], kueue={"hub"}) as lab:
        hub = lab["hub"]
        hub.add_nodes(nodes_of(wanted[0][0]))
        hub.apply(*queues_of(wanted[0][0]))
        with Api.from_kubeconfig(hub.kubeconfig_path) as api:
            for one, before in zip(wanted, kept, strict=True):
                measured = before
                if measured is None:
                    mix, name, seed = one
                    seen = _run(api, mix, name, factor, cost_s)
                    measured = Measured(_row(mix, name, factor, seed, seen), seen.run, seen.cost_s)
                    journal.add(_key(one), measured)
                    row = measured.row
                    click.echo(f"{mix.name} {name}: {row['makespan_s']} s, optimum {row['optimum_s']} s", err=True)
                    hub.kubectl("delete", "jobs", "--all", "--wait=true")
                cost_s = measured.cost_s
                found.append(measured)
    return found


def _key(wanted: Wanted) -> str:
    mix, name, seed = wanted
    return f"{mix.name}/{name}/{seed}"


def lab_of_this_checkout() -> Any:
    """The class `Lab`, which runs real clusters; it is not installed with Dure."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "lab" / "__init__.py").is_file():
        raise NotFound("the lab is part of the source checkout only", remedy="Use --sim, or run in a checkout.")
    sys.path.append(str(root))
    from lab import Lab

    return Lab


def _run(api: Api, mix: Mix, name: str, factor: float, cost_s: Seconds) -> Seen:
    gateway = Gateway(api, Settings(policy=name, moves=looks_again(name)), everybody=True)
    gateway.start()
    try:
        watcher = _Watcher(gateway)
        watcher.wait_empty()
        begun = time.time()
        arrivals = {}
        for spec in sorted(mix.jobs, key=lambda one: one.arrival_s):
            watcher.wait_until(begun + spec.arrival_s / factor)
            arrivals[spec.name] = time.time() - begun
            gateway.desk.submit(job_of(spec, factor, cost_s), Caller(), where=spec.name)
        watcher.wait_all(len(mix.jobs))
        stays = watcher.stays(mix, begun, arrivals)
    finally:
        gateway.stop()
    costs = _costs(stays, {spec.name: spec for spec in mix.jobs}, factor)
    last = max(arrivals.values())
    return Seen(Run(tuple(stays), last), max(0.0, statistics.fmean(costs)), arrivals, watcher.written_s(begun))


def _costs(stays: Sequence[Stay], specs: Mapping[str, MixJob], factor: float) -> list[Seconds]:
    """What each job cost its slot besides running, the handing over from the job before it included.

    Slots are handed over in the order in which they become free. When a job that changed queues could have begun
    is not known, so only those that stayed are counted.
    """
    ends: dict[str, list[Seconds]] = {}
    found = []
    for stay in sorted(stays, key=lambda one: (one.started_s, one.job)):
        freed = [end for end in ends.setdefault(stay.queue, []) if end <= stay.started_s]
        begun = stay.arrived_s
        if freed:
            ends[stay.queue].remove(min(freed))
            begun = max(min(freed), stay.arrived_s)
        ends[stay.queue].append(stay.ended_s)
        if not stay.moves:
            found.append(stay.ended_s - begun - specs[stay.job].run_s[stay.queue] / factor)
    return found


class _Watcher:
    """Notes when each Workload was first seen with quota, and reads the ends from the gateway's journal."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ledger = gateway.ledger
        self._reserved: dict[str, tuple[float, str]] = {}
        self._pause = threading.Event()
        self._counters: dict[str, tuple[int, int]] = dict.fromkeys(QUEUES, (0, 0))
        self._written: dict[str, list[float]] = {lane: [] for lane in QUEUES}

    def look(self) -> None:
        now = time.time()
        for lane in QUEUES:
            counters = self._count(lane)
            if counters != self._counters[lane]:
                self._counters[lane] = counters
                self._written[lane].append(now)
            for held in self._ledger.running(lane):
                self._reserved.setdefault(held.job.partition("/")[2], (now, lane))

    def written_s(self, begun: float) -> dict[str, tuple[Seconds, ...]]:
        return {lane: tuple(at - begun for at in times) for lane, times in self._written.items()}

    def _count(self, lane: str) -> tuple[int, int]:
        queue = self._gateway.board.queues.get(lane)
        return (queue.status.pending_workloads, queue.status.reserving_workloads) if queue is not None else (0, 0)

    def wait_empty(self) -> None:
        """Until the counters no longer show the run before."""
        deadline = time.time() + LONGEST_S
        while any(any(self._count(lane)) for lane in QUEUES):
            if time.time() > deadline:
                raise Temporary(f"the queues were not empty within {LONGEST_S:.0f} s")
            self._pause.wait(0.1)

    def wait_until(self, at_s: float) -> None:
        while time.time() < at_s:
            self.look()
            self._pause.wait(min(0.02, max(0.0, at_s - time.time())))

    def wait_all(self, count: int) -> None:
        deadline = time.time() + LONGEST_S
        while len(self._ends()) < count:
            if time.time() > deadline:
                raise Temporary(f"only {len(self._ends())} of {count} jobs ended within {LONGEST_S:.0f} s")
            self.look()
            self._pause.wait(0.02)

    def stays(self, mix: Mix, begun: float, arrivals: Mapping[str, Seconds]) -> list[Stay]:
        ends, found = self._ends(), []
        for spec in mix.jobs:
            name = next(one for one in ends if one == spec.name or one.startswith(f"{spec.name}-m"))
            started, queue = self._reserved[name]
            moves = int(queue != spec.home)
            found.append(
                Stay(spec.name, spec.kind, queue, arrivals[spec.name], started - begun, ends[name] - begun, moves)
            )
        return found

    def _ends(self) -> dict[str, float]:
        latest = self._gateway.journal.latest(1000)
        return {entry.job: entry.at_s for entry in latest if entry.what == "finished"}


def _row(mix: Mix, name: str, factor: float, seed: int, seen: Seen) -> dict[str, Cell]:
    """Everything in the seconds of the published experiment."""
    jobs = tuple(replace(job, arrival_s=seen.arrivals[job.name] * factor) for job in mix.jobs)
    same = replace(mix, jobs=jobs)
    held = seen.cost_s * factor
    true = replace(
        same,
        jobs=tuple(
            replace(
                job,
                run_s={queue: round(s + held, 1) for queue, s in job.run_s.items()},
                arrival_s=round(job.arrival_s, 1),
            )
            for job in jobs
        ),
    )
    written = {lane: tuple(at * factor for at in times) for lane, times in seen.written_s.items()}
    played = play(same, name, seed, 0.0, Laws(turnaround_s=held, written_s=written)).makespan_s
    real = seen.run.makespan_s * factor
    best = optimum(true, max(real, played) * 1.02)
    return {
        "scenario": mix.name,
        "policy": name,
        "seed": seed,
        "makespan_s": round(real, 1),
        "mean_wait_s": round(seen.run.mean_wait_s * factor, 1),
        "optimum_s": round(best.makespan_s, 1),
        "moved": seen.run.moved,
        "above_optimum": round(real / best.makespan_s - 1, 4),
        "sim_s": round(played, 1),
        "sim_off": round(played / real - 1, 4),
        "cost_per_job_s": round(held, 2),
        "counters_late_s": round(min(written["gpu"], default=0.0), 2),
        "factor": factor,
        "load": round(os.getloadavg()[0], 1),
        "ended": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
    }


def _summary(rows: Sequence[Row], factor: float) -> dict[str, Any]:
    means: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        means.setdefault((str(row["scenario"]), str(row["policy"])), []).append(float(row["makespan_s"] or 0))
    found: dict[str, Any] = {"time factor": factor}
    for (scenario, name), times in means.items():
        fixed = means.get((scenario, "static"))
        spread = statistics.stdev(times) if len(times) > 1 else 0.0
        found[f"{scenario} {name}: mean and spread"] = [round(statistics.fmean(times), 1), round(spread, 1)]
        if fixed and name != "static":
            ratio = statistics.fmean(times) / statistics.fmean(fixed) - 1
            found[f"{scenario} {name}: against static"] = round(ratio, 4)
    found["largest distance of the simulation"] = max(abs(float(row["sim_off"] or 0)) for row in rows)
    return found
