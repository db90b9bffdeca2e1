"""Lists and profiles of `dure bench jct`: what was submitted when, and how fast each application ran on each type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dure.bench.data import data_file, read_rows
from dure.model.errors import InvalidInput
from dure.sim.training.cluster import Kind, Submitted
from dure.sim.training.profile import Application, Epochs, Step, Steps

# The cluster of the published table: 24 T4, 24 RTX 2080 Ti, 16 A100.
KINDS = (Kind("aws", 6, 4), Kind("rtx", 3, 8), Kind("dgx-ext", 2, 8))
LISTS = {"philly": "philly", "helios": "saturn", "newtrace": "newtrace"}

# Per application: epochs, seconds of a restart, how much slower real runs were than the profile (Sia's artifact).
_FACTS = {
    "cifar10": (100, 50.0, 1.8),
    "bert": (2, 120.0, 1.2),
    "deepspeech2": (80, 25.0, 1.2),
    "yolov3": (50, 80.0, 1.2),
    "imagenet": (90, 250.0, 1.2),
}


def lists_of(trace: str, limit: int) -> list[Path]:
    folder = data_file(f"sia/workloads/{LISTS[trace]}/workload-1.csv").parent
    found = sorted([*folder.glob("workload-*.csv"), *folder.glob("workload-*.csv.gz")])
    return found[:limit] if limit else found


def read_list(path: Path) -> list[Submitted]:
    jobs = []
    for number, row in enumerate(read_rows(path), 2):
        try:
            one = Submitted(
                row["name"], float(row["time"]), row["application"], int(row["num_replicas"]), int(row["batch_size"])
            )
        except (KeyError, TypeError, ValueError) as error:
            remedy = "Columns: name, time, application, num_replicas, batch_size."
            raise InvalidInput(f"not a job: {error}", where=f"{path}:{number}", remedy=remedy) from error
        if one.application not in _FACTS:
            known = ", ".join(sorted(_FACTS))
            raise InvalidInput(
                f"no profile of '{one.application}'", where=f"{path}:{number}", remedy=f"Known: {known}"
            )
        jobs.append(one)
    return jobs


def applications() -> dict[str, Application]:
    return {name: _application(name) for name in _FACTS}


def _application(name: str) -> Application:
    count, restart_s, slower = _FACTS[name]
    steps = {kind.name: Steps(_steps(name, kind.name)) for kind in KINDS}
    folder = data_file(f"pollux/profiles/{name}/placements.csv").parent
    epochs = {
        int(path.name.removeprefix("validation-").partition(".")[0]): _epochs(path)
        for path in sorted(folder.glob("validation-*.csv*"))
    }
    return Application(steps, epochs, count=count, restart_s=restart_s, slower=slower)


def _steps(name: str, kind: str) -> Iterator[Step]:
    for row in read_rows(data_file(f"sia/profiles/{name}/placements-{kind}.csv")):
        shape = row["placement"]
        yield Step(len(shape), sum(int(digit) for digit in shape), int(float(row["local_bsz"])), *_times(row))
    for row in read_rows(data_file(f"sia/profiles/{name}/scalability-{kind}.csv")):
        nodes, replicas = int(float(row["num_nodes"])), int(float(row["num_replicas"]))
        yield Step(nodes, replicas, int(float(row["local_bsz"])), *_times(row))


def _times(row: dict[str, str]) -> tuple[float, float]:
    return float(row["step_time"]), float(row["sync_time"])


def _epochs(path: Path) -> Epochs:
    rows = list(read_rows(path))
    columns = [tuple(float(row[name]) for row in rows) for name in ("progress", "grad_sqr", "grad_var")]
    return Epochs(*columns)
