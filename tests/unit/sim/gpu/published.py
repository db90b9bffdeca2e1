"""Measured kernel sequences and latency tables from published profiles, as the virtual GPU wants them.

Each function reads one published format from a path the caller found; nothing is shipped. Called by the gates.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec

from dure.model.errors import InvalidInput
from dure.sim.gpu.profile import Profile

RHO = 0.09
PRESS = {1: 1.0, 0: 1.3, -1: 0.8}


def orion_profile(path: Path) -> Profile:
    """One workload of the Orion profiles (V100): class, SMs needed and time of each kernel.

    Kernel names hold commas, so lines are cut from the right.
    """
    sms, ms, memory, press = [], [], [], []
    for number, line in enumerate(path.read_text().splitlines()[1:], start=2):
        if not line.strip():
            continue
        try:
            _, kind, _, wanted, nanoseconds = line.rsplit(",", 4)
            sms.append(max(1, int(wanted)))
            ms.append(int(nanoseconds) / 1e6)
            memory.append({1: 0, 0: 1, -1: -1}[int(kind)])
            press.append(PRESS[int(kind)])
        except (ValueError, KeyError) as error:
            raise InvalidInput(f"not an Orion kernel line: {line[:60]!r}", where=f"{path}:{number}") from error
    return Profile(path.stem, tuple(sms), tuple(ms), tuple(RHO * p for p in press), tuple(press), tuple(memory))


def reef_profiles(folder: Path, blocks_per_cu: int = 4) -> dict[str, Profile]:
    """The REEF sequences (MI50): grids become compute units needed, times are scaled to the model's own latency."""
    rows: dict[str, list[tuple[int, float]]] = {}
    with (folder / "kernel_sequences.csv").open(newline="") as text:
        for row in csv.DictReader(text):
            units = max(1, -(-int(row["grid_blocks"]) // blocks_per_cu))
            rows.setdefault(row["model"], []).append((units, max(float(row["solo_latency_us"]), 2.0) / 1000.0))
    profiles = {}
    for model, kernels in sorted(rows.items()):
        path = folder / f"{model}.profile.json"
        measured = json.loads(path.read_text())["model_latency"] / 1000.0 if path.is_file() else 0.0
        scale = measured / sum(ms for _, ms in kernels) if measured else 1.0
        count = len(kernels)
        profiles[model] = Profile(
            model,
            tuple(units for units, _ in kernels),
            tuple(ms * scale for _, ms in kernels),
            (RHO,) * count,
            (1.0,) * count,
            (-1,) * count,
        )
    return profiles


def parva_table(path: Path) -> dict[tuple[int, int, int], tuple[float, float]]:
    """ParvaGPU's measurements (A100 MIG): (slices, batch, processes) -> requests/s of the instance, latency in ms."""
    table = {}
    with path.open(newline="") as text:
        for row in csv.DictReader(text):
            slices, batch, processes = (int(row[c]) for c in ("Mig instance", "Batch size", "Workload Number"))
            rate, latency = float(row["Throughput"]) * processes, float(row["Latency"]) * 1000.0
            if rate > 0.0:
                table[slices, batch, processes] = (rate, latency)
    return table


def miso_times(path: Path) -> dict[tuple[str, int], dict[int, float]]:
    """MISO's training steps (A100 MIG): (model, batch) -> slices -> mean ms."""
    times: dict[tuple[str, int], dict[int, float]] = {}
    with path.open(newline="") as text:
        for row in csv.DictReader(text):
            key = (row["model"], int(row["batch"]))
            times.setdefault(key, {})[int(row["mig_slice"][0])] = float(row["mean_s"]) * 1000.0
    return times


def gpulet_utilisation(path: Path) -> dict[tuple[str, int], float]:
    """gpulet's table: (model, batch) -> part of the memory bandwidth in use, a prior for interference."""
    use = {}
    with path.open(newline="") as text:
        for row in csv.DictReader(text):
            use[row["bench"], int(row["batch"])] = min(float(row["mem_util(%)"]) / 100.0, 1.0)
    return use


class DisbClient(msgspec.Struct, frozen=True):
    """`kind` is continuous (closed loop), periodic, poisson or trace; `rate_per_s` only where one is given."""

    name: str
    model: str
    kind: str
    rate_per_s: float | None = None


def disb_clients(path: Path) -> tuple[DisbClient, ...]:
    """The clients of one of DISB's co-location workloads, in the order of its file."""
    tasks = msgspec.json.decode(path.read_bytes())["tasks"]
    return tuple(
        DisbClient(task["id"], task["client"]["model_name"], task["load"]["type"], task["load"].get("frequency"))
        for task in tasks
    )
