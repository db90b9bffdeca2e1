"""Recorded jobs for `dure bench eta`: when they came, how long they took, how many devices, whose they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from dure.bench.data import data_file, read_rows
from dure.bench.eta_replay import Trace
from dure.model.errors import InvalidInput
from dure.model.units import HOUR_S


def _philly() -> list[Trace]:
    rows = read_rows(data_file("philly/philly_jobs.csv"))
    found = [
        (
            datetime.fromisoformat(row["timestamp"]).timestamp(),
            float(row["duration"]),
            row["num_gpus"],
            row["cluster"],
        )
        for row in rows
    ]
    return _sorted(found)


def _pai() -> list[Trace]:
    """Its times are in hours."""
    rows = read_rows(data_file("pai-gaia/pai-100k.csv"))
    found = [(float(row["arrival_time"]) * HOUR_S, float(row["length"]) * HOUR_S, row["cpus"], "") for row in rows]
    return _sorted(found)


def _openb() -> list[Trace]:
    """Pods that ran and ended; those without a whole device count as one."""
    rows = read_rows(data_file("openb/openb_pod_list_default.csv"))
    found = [
        (
            float(row["creation_time"]), float(row["deletion_time"]) - float(row["scheduled_time"]), row["num_gpu"],
            row["qos"],
        )
        for row in rows
        if row["scheduled_time"] and row["deletion_time"]
    ]  # fmt: skip
    return _sorted(found)


TRACES: dict[str, Callable[[], list[Trace]]] = {"philly": _philly, "pai": _pai, "openb": _openb}


def jobs_of_file(path: Path) -> list[Trace]:
    """Columns at_s, length_s, devices and group."""
    found = []
    for number, row in enumerate(read_rows(path), 2):
        try:
            found.append((float(row["at_s"]), float(row["length_s"]), row["devices"], row.get("group", "")))
        except (KeyError, TypeError, ValueError) as error:
            remedy = "Columns: at_s, length_s, devices, group."
            raise InvalidInput(f"not a job: {error}", where=f"{path}:{number}", remedy=remedy) from error
    return _sorted(found)


def _sorted(found: list[tuple[float, float, str, str]]) -> list[Trace]:
    """By arrival; a group is an owner and a size to the power of two, for the wide ones last longer."""
    jobs = []
    for at_s, length_s, devices, owner in found:
        wide = max(1, int(float(devices)))
        jobs.append(Trace(at_s, max(1.0, length_s), wide, f"{owner}/{int(math.log2(wide))}"))
    return sorted(jobs, key=lambda job: (job.at_s, job.length_s))
