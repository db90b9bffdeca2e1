"""`dure bench gateway`: what the gateway adds to a submission, against creating the same Job directly.

A real API server with Kueue's kinds; the gateway is a process of its own. Kueue itself is stopped, so that neither
its webhook nor its work blurs the comparison. Pairs of submissions are timed one after the other, then jobs come at
a fixed rate whether or not earlier ones were answered; both once without and once with many existing Workloads.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from dure.adapters.kube.rest import Api
from dure.bench.result import Result, Row, bench_options, emit
from dure.bench.route_lab import KUEUE, lab_of_this_checkout
from dure.model.errors import InvalidInput, Temporary
from dure.model.units import Seconds

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
CLIENTS = 24
WARM_UP = 30


@click.command()
@click.option("--workloads", default=100_000, show_default=True, help="Existing Workloads of the second half.")
@click.option("--pairs", default=400, show_default=True, help="Submissions timed each way.")
@click.option("--rate", default=200.0, show_default=True, help="Submissions per second.")
@click.option("--seconds", default=10.0, show_default=True, help="How long that rate is kept up.")
@bench_options
def command(as_json: bool, report: Path | None, workloads: int, pairs: int, rate: float, seconds: float) -> None:
    """Measure the gateway's latency and rate beside direct creates.

    \b
    Example:
      dure bench gateway --workloads 10000 --json
    """
    if not 0 <= workloads <= 1_000_000 or not 1 <= pairs <= 100_000 or not 0 < rate <= 10_000 or not seconds > 0:
        raise InvalidInput("--workloads, --pairs, --rate and --seconds must be possible numbers")
    rows: list[Row] = []
    with lab_of_this_checkout()(["hub"], kueue={"hub"}, off={"hub": IDLE}) as lab:
        hub = lab["hub"]
        hub.apply(*_queues())
        for kind in HOOKS:
            hub.kubectl("delete", kind, "--all")
        hub.stop("kueue")
        with Api.from_kubeconfig(hub.kubeconfig_path) as api:
            rows += _measured(api, hub.kubeconfig_path, 0, pairs, rate, seconds)
            if workloads:
                _fill(api, workloads)
                rows += _measured(api, hub.kubeconfig_path, workloads, pairs, rate, seconds)
    emit(Result("gateway", rows, _summary(rows)), as_json=as_json, report=report)


IDLE = frozenset({"kwok", "kube-scheduler", "kube-controller-manager"})


def _measured(api: Api, kubeconfig: Path, existing: int, pairs: int, rate: float, seconds: Seconds) -> list[Row]:
    import httpx2

    with _gateway(kubeconfig) as url, httpx2.Client(base_url=url, trust_env=False, timeout=60.0) as client:
        direct, through = _pairs(api, client, existing, pairs)
        rows = [_row("direct", existing, direct), _row("gateway", existing, through)]
        took, reached, failed = _at_rate(client, existing, rate, seconds)
        rows.append({**_row("gateway at rate", existing, took), "rate": round(reached, 1), "failed": failed})
    for row in rows:
        click.echo(f"{row['way']}, {existing} workloads: p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms", err=True)
    return rows


@contextmanager
def _gateway(kubeconfig: Path) -> Iterator[str]:
    """Quiet, and without moves: what is measured is the way in."""
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
        yield url
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


def _pairs(api: Api, client: Any, existing: int, pairs: int) -> tuple[list[Seconds], list[Seconds]]:
    """In turn, so that both see the same moments of the machine; the first ones warm everything up."""
    direct, through = [], []
    for number in range(pairs + WARM_UP):
        made = _job(f"direct-{existing}-{number}")
        made["spec"]["suspend"] = True
        begun = time.perf_counter()
        api.post(JOBS, made, dict)
        between = time.perf_counter()
        _submit(client, f"gate-{existing}-{number}")
        if number >= WARM_UP:
            direct.append(between - begun)
            through.append(time.perf_counter() - between)
    return direct, through


def _at_rate(client: Any, existing: int, rate: float, seconds: Seconds) -> tuple[list[Seconds], float, int]:
    """Each is due at its time, and its latency counts from then."""
    count, failed, took = int(rate * seconds), 0, []
    begun = time.perf_counter() + 0.1

    def one(number: int) -> Seconds:
        due = begun + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        _submit(client, f"rate-{existing}-{number}")
        return time.perf_counter() - due

    with ThreadPoolExecutor(CLIENTS) as pool:
        for done in [pool.submit(one, number) for number in range(count)]:
            if done.exception() is None:
                took.append(done.result())
            else:
                failed += 1
    return took, len(took) / (time.perf_counter() - begun), failed


def _submit(client: Any, name: str) -> None:
    answer = client.post("/v1/jobs", content=msgspec.json.encode(_job(name)))
    if answer.status_code != 201:
        raise Temporary(f"the gateway answered {answer.status_code}: {answer.text[:200]}")


def _fill(api: Api, count: int) -> None:
    """Pending Workloads of somebody else, in the very queue that is measured."""
    container = {"name": "main", "image": "lab/none", "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "user-gpu", "podSets": [{"name": "main", "count": 1, "template": template}]}

    def one(number: int) -> None:
        body = {"apiVersion": KUEUE, "kind": "Workload", "metadata": {"name": f"old-{number:06d}"}, "spec": spec}
        api.post(WORKLOADS, body, dict)

    with ThreadPoolExecutor(8) as pool:
        for number, _ in enumerate(pool.map(one, range(count)), 1):
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
    from dure.bench.route_lab import queue_objects

    return queue_objects({"gpu": {"cpu": 16, "nvidia.com/gpu": 4}, "cpu": {"cpu": 24}})


def _row(way: str, existing: int, took: Sequence[Seconds]) -> Row:
    ordered = sorted(took)
    cuts = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}
    last = len(ordered) - 1
    found = {name: round(1000 * ordered[min(last, int(cut * len(ordered)))], 2) for name, cut in cuts.items()}
    mean = round(1000 * statistics.fmean(ordered), 2)
    return {"way": way, "existing_workloads": existing, "submissions": len(ordered), "mean_ms": mean, **found}


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    cells = {(row["existing_workloads"], row["way"]): row for row in rows}
    found: dict[str, Any] = {}
    for existing in dict.fromkeys(row["existing_workloads"] for row in rows):
        direct, through = cells[existing, "direct"], cells[existing, "gateway"]
        for name in ("p50_ms", "p99_ms"):
            added = float(through[name] or 0) - float(direct[name] or 0)
            found[f"added with {existing} workloads, {name}"] = round(added, 2)
        found[f"rate reached with {existing} workloads"] = cells[existing, "gateway at rate"]["rate"]
    return found
