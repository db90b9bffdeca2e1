"""Mixes to play: the two published scenarios and random ones."""

from __future__ import annotations

import numpy as np

from dure.model.units import Seconds
from dure.sim.queues.mix import Mix, MixJob, MixQueue

HEAVY_GPU_S = 30.0
LIGHT_GPU_S = 26.0
LIGHT_CPU_S = 90.0
JOBS = 30
GPUS = 4
CPU_SLOTS = 6
CPU_NODES = 3
BURST_GAP_S = 0.1


def uniform(cpu_s: Seconds = LIGHT_CPU_S, slowdown: float = 1.0) -> Mix:
    """30 jobs, heavy and light in turn, one a second."""
    jobs = tuple(_job(number, number % 2 == 1, float(number), cpu_s) for number in range(JOBS))
    return Mix("uniform", _queues(slowdown), jobs)


def burst(cpu_s: Seconds = LIGHT_CPU_S, slowdown: float = 1.0) -> Mix:
    """15 heavy ones and then 15 light ones, as fast as a client can hand them in."""
    jobs = tuple(_job(number, number >= JOBS // 2, round(number * BURST_GAP_S, 3), cpu_s) for number in range(JOBS))
    return Mix("burst", _queues(slowdown), jobs)


def random_mix(seed: int, slowdown: float = 1.0) -> Mix:
    """Two to four kinds of jobs, four ways of arriving, CPUs 1.5 to 6 times as slow, 5 to 12 jobs for each GPU."""
    chance = np.random.default_rng(seed)
    gpus, cpus = int(chance.integers(2, 9)), int(chance.integers(2, 13))
    kinds = [_random_kind(chance, light=number % 2 == 1) for number in range(int(chance.integers(2, 5)))]
    count = gpus * int(chance.integers(5, 13))
    arrivals = _random_arrivals(chance, count)
    jobs = []
    for number in range(count):
        run = kinds[int(chance.integers(len(kinds)))]
        kind = "light" if "cpu" in run else "gpu"
        jobs.append(MixJob(f"job-{number:03d}", arrivals[number], kind, run))
    nodes = max(1, cpus // 2) if slowdown > 1 else 0
    queues = {"gpu": MixQueue(gpus), "cpu": MixQueue(cpus, nodes, slowdown)}
    return Mix(f"mix-{seed:03d}", queues, tuple(jobs))


def _random_kind(chance: np.random.Generator, *, light: bool) -> dict[str, Seconds]:
    gpu_s = float(chance.integers(10, 46))
    if not light:
        return {"gpu": gpu_s}
    return {"gpu": gpu_s, "cpu": float(round(gpu_s * chance.uniform(1.5, 6.0)))}


def _random_arrivals(chance: np.random.Generator, count: int) -> list[float]:
    match int(chance.integers(4)):
        case 0:
            gaps = np.full(count, 0.1)
        case 1:
            gaps = np.full(count, float(chance.integers(1, 6)))
        case 2:
            gaps = chance.exponential(float(chance.uniform(0.5, 5.0)), count)
        case _:
            gaps = np.where(np.arange(count) % 10 == 9, float(chance.integers(10, 60)), 0.1)
    return [round(float(at), 1) for at in np.cumsum(gaps) - gaps[0]]


def _job(number: int, light: bool, arrival_s: float, cpu_s: Seconds) -> MixJob:
    run = {"gpu": LIGHT_GPU_S, "cpu": cpu_s} if light else {"gpu": HEAVY_GPU_S}
    return MixJob(f"job-{number:02d}", arrival_s, "light" if light else "gpu", run)


def _queues(slowdown: float) -> dict[str, MixQueue]:
    nodes = CPU_NODES if slowdown > 1 else 0
    return {"gpu": MixQueue(GPUS), "cpu": MixQueue(CPU_SLOTS, nodes, slowdown)}
