"""The routing experiment on a real Kueue: lab cluster, KWOK pods, the gateway in between. For `bench.route`.

Everything is `factor` times faster than in the published experiment and told in its seconds again. What a Job costs
besides running (admission, pod start, noticing the end) is measured in each run and belongs to the true durations:
the optimum and the simulation of the same run count it as well.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from dure.adapters.kube.rest import Api
from dure.bench.result import Result, Row
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
RUN_SECONDS = "lab.dure.dev/run-seconds"
KUEUE = "kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUEUES = {"gpu": "user-gpu", "cpu": "user-cpu"}
# Before the first run nothing is known of what a Job costs besides running.
FIRST_COST_S = 1.5


class Seen(NamedTuple):
    """A run in real seconds since its first submission."""

    run: Run
    cost_s: Seconds
    arrivals: Mapping[str, Seconds]


def measure(
    mixes: Sequence[Mix], policies: Sequence[str], factor: float, repeats: int, seed: int
) -> tuple[Result, list[Any]]:
    if not 1.0 <= factor <= FASTEST:
        raise InvalidInput(f"--factor must be from 1 to {FASTEST:g}: what Jobs cost besides running does not shrink")
    for mix in mixes:
        if set(mix.queues) != set(QUEUES):
            raise InvalidInput(f"scenario '{mix.name}': the real Kueue here has the queues gpu and cpu")
    rows: list[Row] = []
    shown: dict[tuple[str, str], Run] = {}
    cost_s = FIRST_COST_S
    with lab_of_this_checkout()(["hub"], kueue={"hub"}) as lab:
        hub = lab["hub"]
        hub.add_nodes(_nodes(mixes[0]))
        hub.apply(*_queues(mixes[0]))
        with Api.from_kubeconfig(hub.kubeconfig_path) as api:
            for mix in mixes:
                for name in policies:
                    for repeat in range(repeats):
                        seen = _run(api, mix, name, factor, cost_s)
                        cost_s = seen.cost_s
                        row = _row(mix, name, factor, seed + repeat, seen)
                        rows.append(row)
                        shown[mix.name, name] = seen.run
                        click.echo(
                            f"{mix.name} {name}: {row['makespan_s']} s, optimum {row['optimum_s']} s", err=True
                        )
                        hub.kubectl("delete", "jobs", "--all", "--wait=true")
    return Result("route", rows, _summary(rows, factor)), figures(rows, shown)


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
        begun = time.time()
        arrivals = {}
        for spec in sorted(mix.jobs, key=lambda one: one.arrival_s):
            watcher.wait_until(begun + spec.arrival_s / factor)
            arrivals[spec.name] = time.time() - begun
            gateway.desk.submit(_job(spec, factor, cost_s), Caller(), where=spec.name)
        watcher.wait_all(len(mix.jobs))
        stays = watcher.stays(mix, begun, arrivals)
    finally:
        gateway.stop()
    costs = _costs(stays, {spec.name: spec for spec in mix.jobs}, factor)
    last = max(arrivals.values())
    return Seen(Run(tuple(stays), last), max(0.0, statistics.fmean(costs)), arrivals)


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

    def look(self) -> None:
        now = time.time()
        for lane in QUEUES:
            for held in self._ledger.running(lane):
                self._reserved.setdefault(held.job.partition("/")[2], (now, lane))

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


def _row(mix: Mix, name: str, factor: float, seed: int, seen: Seen) -> Row:
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
    played = play(same, name, seed, 0.0, Laws(turnaround_s=held)).makespan_s
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
        "factor": factor,
    }


def _job(spec: MixJob, factor: float, cost_s: Seconds) -> dict[str, Any]:
    ways = [
        {
            "class": queue,
            "queue": QUEUES[queue],
            "estimate": round(spec.run_s[queue] / factor + cost_s, 3),
            "annotations": {RUN_SECONDS: f"{spec.run_s[queue] / factor:.3f}"},
            **({"resources": {"nvidia.com/gpu": None}, "env": {"RUN_ENV": "cpu"}} if queue == "cpu" else {}),
        }
        for queue in sorted(spec.run_s, key=lambda one: one != spec.home)
    ]
    kind = "-".join(f"{queue}{seconds:g}" for queue, seconds in sorted(spec.run_s.items()))
    amounts = {"cpu": "4", "memory": "6Gi", **({"nvidia.com/gpu": "1"} if spec.home == "gpu" else {})}
    limits = {name: amount for name, amount in amounts.items() if "/" in name}
    container = {
        "name": "main",
        "image": "lab/none",
        "env": [{"name": "RUN_ENV", "value": spec.home}],
        "resources": {"requests": amounts, "limits": limits},
    }
    annotations = {"dure.dev/kind": kind, "dure.dev/accepts": json.dumps(ways)}
    run = {RUN_SECONDS: f"{spec.run_s[spec.home] / factor:.3f}"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": spec.name,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUES[spec.home]},
            "annotations": annotations,
        },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": run},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _nodes(mix: Mix) -> list[dict[str, Any]]:
    gpus, cpus = mix.queues["gpu"].slots, mix.queues["cpu"].slots
    return [
        {"group": "t4", "count": gpus, "cpu": 16, "memory": "64Gi", "gpu": {"product": "Tesla-T4", "count": 1}},
        {"group": "cpu", "count": max(1, (cpus + 1) // 2), "cpu": 8, "memory": "32Gi"},
    ]


def _queues(mix: Mix) -> list[dict[str, Any]]:
    gpus, cpus = mix.queues["gpu"].slots, mix.queues["cpu"].slots
    return queue_objects(
        {
            "gpu": {"cpu": 4 * gpus, "memory": "640Gi", "nvidia.com/gpu": gpus},
            "cpu": {"cpu": 4 * cpus, "memory": "640Gi"},
        }
    )


def queue_objects(amounts: Mapping[str, Mapping[str, int | str]]) -> list[dict[str, Any]]:
    """A flavor, a ClusterQueue and a LocalQueue each."""
    found: list[dict[str, Any]] = []
    for queue, quota in amounts.items():
        resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
        group = {"coveredResources": list(quota), "flavors": [{"name": queue, "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        found += [
            {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": queue}},
            {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": spec},
            {
                "apiVersion": KUEUE,
                "kind": "LocalQueue",
                "metadata": {"name": QUEUES[queue], "namespace": "default"},
                "spec": {"clusterQueue": queue},
            },
        ]
    return found


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
