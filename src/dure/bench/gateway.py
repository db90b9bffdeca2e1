"""`dure bench gateway`: what the gateway adds to a submission, against creating the same Job directly.

A real API server with Kueue's kinds; the gateway is a process of its own. Kueue itself is stopped, so that neither
its webhook nor its work blurs the comparison. Pairs of submissions are timed one after the other, both with the same
lean client, then jobs come at a fixed rate whether or not earlier ones were answered; first without existing
Workloads, then with more and more of them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from dure.adapters.kube.rest import Api
from dure.adapters.kube.wire import Wire
from dure.bench.result import Result, Row, bench_options, emit
from dure.bench.route_lab import lab_of_this_checkout
from dure.bench.route_objects import KUEUE, queue_objects
from dure.files.params import POSITIVE
from dure.model.errors import InvalidInput, Temporary
from dure.model.units import Seconds

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CLIENTS = 24
WARM_UP = 30
Create = Callable[[str], None]
Clock = Callable[[], Seconds]


@click.command()
@click.option(
    "--workloads",
    "levels",
    multiple=True,
    default=(100_000,),
    show_default=True,
    help="Measure again with so many existing Workloads; repeat.",
)
@click.option("--pairs", default=400, show_default=True, help="Submissions timed each way.")
@click.option("--rate", type=POSITIVE, default=200.0, show_default=True, help="Submissions per second.")
@click.option("--seconds", type=POSITIVE, default=10.0, show_default=True, help="How long that rate is kept up.")
@bench_options
def command(
    as_json: bool, report: Path | None, levels: tuple[int, ...], pairs: int, rate: float, seconds: float
) -> None:
    """Measure the gateway's latency and rate beside direct creates.

    \b
    Example:
      dure bench gateway --workloads 1000 --workloads 10000 --json
    """
    possible = all(0 <= one <= 1_000_000 for one in levels)
    if not possible or not 1 <= pairs <= 100_000 or not 0 < rate <= 10_000 or not seconds > 0:
        raise InvalidInput("--workloads, --pairs, --rate and --seconds must be possible numbers")
    rows: list[Row] = []
    with lab_of_this_checkout()(["hub"], kueue={"hub"}, off={"hub": IDLE}) as lab:
        hub = lab["hub"]
        hub.apply(*_queues())
        for kind in HOOKS:
            hub.kubectl("delete", kind, "--all")
        hub.stop("kueue")
        with Api.from_kubeconfig(hub.kubeconfig_path) as api:
            there = 0
            for existing in sorted({0, *levels}):
                _fill(api, there, existing)
                there = existing
                with _gateway(hub.kubeconfig_path) as (url, spent_s):
                    rows += measured(api, url, existing, pairs, rate, seconds, spent_s)
    emit(Result("gateway", rows, summary(rows)), as_json=as_json, report=report)


IDLE = frozenset({"kwok", "kube-scheduler", "kube-controller-manager"})


def measured(
    api: Api, url: str, existing: int, pairs: int, rate: float, seconds: Seconds, spent_s: Clock = lambda: 0.0
) -> list[Row]:
    """The rows of one number of existing Workloads, with the machine's load beside.

    `spent_s` is the processor time of the gateway so far: other than latency, it hardly depends on who else runs.
    """
    wire = Wire(url, None, 60.0)

    def direct(name: str) -> None:
        api.post(JOBS, {**_job(name), "spec": {**_job(name)["spec"], "suspend": True}}, dict)

    def through(name: str) -> None:
        _submit(wire, name)

    rows: list[Row] = []
    try:
        before_s = spent_s()
        timed = _pairs({"direct": direct, "gateway": through}, existing, pairs)
        each_ms = 1000 * (spent_s() - before_s) / (pairs + WARM_UP)
        rows.append(_row("direct", existing, timed["direct"]))
        rows.append({**_row("gateway", existing, timed["gateway"]), "cpu_ms": round(each_ms, 2)})
        for way, create in (("direct at rate", direct), ("gateway at rate", through)):
            took, reached, failed = _at_rate(create, f"{way.replace(' ', '-')}-{existing}", rate, seconds)
            rows.append({**_row(way, existing, took), "rate": round(reached, 1), "failed": failed})
    finally:
        wire.close()
    for row in rows:
        click.echo(f"{row['way']}, {existing} workloads: p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms", err=True)
    return rows


@contextmanager
def _gateway(kubeconfig: Path) -> Iterator[tuple[str, Clock]]:
    """A process of its own, as `dure gateway serve` runs it by default: its address and the time it has used."""
    argv = [
        sys.executable,
        "-m",
        "dure",
        "gateway",
        "serve",
        "--kubeconfig",
        str(kubeconfig),
        "--port",
        "0",
        "--open",
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        url = next((word for word in line.split() if word.startswith("http://")), "")
        if not url:
            raise Temporary("the gateway did not start")
        yield url, lambda: _processor_s(process.pid)
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


def _processor_s(pid: int) -> Seconds:
    """Of a process, in its own code and in the kernel for it (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pairs(ways: Mapping[str, Create], existing: int, pairs: int) -> dict[str, list[Seconds]]:
    """In turn, so that both see the same moments of the machine; the first ones warm everything up."""
    took: dict[str, list[Seconds]] = {way: [] for way in ways}
    for number in range(pairs + WARM_UP):
        for way, create in ways.items():
            begun = time.perf_counter()
            create(f"{way}-{existing}-{number}")
            if number >= WARM_UP:
                took[way].append(time.perf_counter() - begun)
    return took


def _at_rate(create: Create, name: str, rate: float, seconds: Seconds) -> tuple[list[Seconds], float, int]:
    """Each is due at its time, and its latency counts from then."""
    count, failed, took = max(1, int(rate * seconds)), 0, []
    begun = time.perf_counter() + 0.1

    def one(number: int) -> Seconds:
        due = begun + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        create(f"{name}-{number}")
        return time.perf_counter() - due

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(one, number) for number in range(count)]:
            if done.exception() is None:
                took.append(done.result())
            else:
                failed += 1
    if not took:
        raise Temporary(f"none of {count} submissions succeeded", where=name)
    return took, len(took) / (time.perf_counter() - begun), failed


def _submit(wire: Wire, name: str) -> None:
    answer = wire.post("/v1/jobs", msgspec.json.encode(_job(name)), twice=False)
    if answer.status != 201:
        raise Temporary(f"the gateway answered {answer.status}: {answer.body[:200].decode(errors='replace')}")


def _fill(api: Api, there: int, count: int) -> None:
    """Pending Workloads of somebody else, in the very queue that is measured."""
    container = {"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "user-gpu", "podSets": [{"name": "main", "count": 1, "template": template}]}

    def one(number: int) -> None:
        body = {"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": f"old-{number:06d}"}, "spec": spec}
        api.post(WORKLOADS, body, dict)

    with ThreadPoolExecutor(8) as pool:
        for number, _ in enumerate(pool.map(one, range(there, count)), there + 1):
            if number % 1000 == 0:
                click.echo(f"\r{number} of {count} workloads", err=True, nl=number == count)


def _job(name: str) -> dict[str, Any]:
    accepts = "[{class: t4, queue: user-gpu, estimate: 26}, {class: cpu, queue: user-cpu, estimate: 90}]"
    container = {
        "name": "main",
        "image": "lab/none",
        "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "user-gpu"},
            "annotations": {"dure.dev/accepts": accepts, "dure.dev/kind": "bench"},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def _queues() -> list[dict[str, Any]]:
    return queue_objects({"gpu": {"cpu": 16, "nvidia.com/gpu": 4}, "cpu": {"cpu": 24}})


def _row(way: str, existing: int, took: Sequence[Seconds]) -> Row:
    ordered = sorted(took)
    cuts = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    last = len(ordered) - 1
    found = {name: round(1000 * ordered[min(last, int(cut * len(ordered)))], 2) for name, cut in cuts.items()}
    mean = round(1000 * statistics.fmean(ordered), 2)
    load = round(os.getloadavg()[0], 1)
    counted: Row = {"way": way, "existing_workloads": existing, "submissions": len(ordered), "load": load}
    return {**counted, "mean_ms": mean, **found}


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    cells = {(row["existing_workloads"], row["way"]): row for row in rows}
    found: dict[str, Any] = {}
    for existing in dict.fromkeys(row["existing_workloads"] for row in rows):
        direct, through = cells[existing, "direct"], cells[existing, "gateway"]
        for name in ("p50_ms", "p99_ms"):
            added = float(through[name] or 0) - float(direct[name] or 0)
            found[f"added with {existing} workloads, {name}"] = round(added, 2)
        found[f"gateway's processor time with {existing} workloads, ms each"] = through.get("cpu_ms")
        for way in ("direct", "gateway"):
            found[f"{way} rate reached with {existing} workloads"] = cells[existing, f"{way} at rate"]["rate"]
    return found
