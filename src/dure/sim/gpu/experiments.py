"""The published experiments, ready to run under any sharing system: the grid, many tenants, QoS, mixed load, squads.

Request times come from numpy generators seeded by the caller, so a cell is reproducible. Used by `dure bench
share` and by the validation tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.sim.gpu.device import A100, GpuSpec
from dure.sim.gpu.profile import A100_APPS, App, Profile, synthesise
from dure.sim.gpu.run import SYSTEMS, Outcome, System, Tenant, iso_ms, play

GRID = ("VGG11", "ResNet50", "ResNet101", "NasNet", "BERT")
LOADS = {"A": 1.0 / 3.0, "B": 2.0 / 3.0, "C": 1.0}
"""Think time of the closed-loop clients as a part of the solo latency."""
MULTI = {
    "4xBERT": (App("BERT-bs1", 9.4, 382, 8.4, 0.16, (0.15, 0.6)), (0.1, 0.2, 0.3, 0.4)),
    "4xR50": (A100_APPS["ResNet50"], (0.1, 0.2, 0.3, 0.4)),
    "8xBERT": (A100_APPS["BERT-small"], (0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2)),
    "8xR50": (A100_APPS["ResNet50"], (0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.2)),
}
WARM_UP = 5


class Cell(msgspec.Struct, frozen=True):
    """One measured cell. `missed` is the part of the requests above their target, `p99` is over the target."""

    mean_ms: float
    p99: float
    missed: float
    busy: float
    bubble: float
    worst: float
    """The slowest tenant's mean latency over its target: above 3 somebody starves."""


def think_times(solo_ms: float, load: str, seed: int, tenants: int, *, jitter: float = 0.01, requests: int = 40,
                random_phase: bool = False) -> NDArray[np.float64]:  # fmt: skip
    """Closed-loop clients: they start together as in the publication, or at random moments of a cycle."""
    rng = np.random.default_rng(seed)
    part = LOADS[load]
    times = part * solo_ms * np.clip(1.0 + jitter * rng.standard_normal((tenants, requests)), 0.5, 1.5)
    times[:, 0] = rng.random(tenants) * solo_ms * ((1.0 + part) if random_phase else 0.02)
    return times


def pair(
    app: App,
    load: str,
    system: System,
    seed: int,
    *,
    quotas: tuple[float, float] = (0.5, 0.5),
    targets: tuple[float, float] | None = None,
    extra_slowdown: float = 0.0,
    random_phase: bool = False,
    gpu: GpuSpec = A100,
) -> Cell:
    """Two copies of an application. `targets` are multiples of the time alone on the whole device; without them
    each is promised what its quota gives it alone."""
    profile = synthesise(app, gpu.sms)
    promised = [profile.solo_ms * t for t in targets] if targets else [iso_ms(profile, q, gpu) for q in quotas]
    tenants = [Tenant(profile, quota, target) for quota, target in zip(quotas, promised, strict=True)]
    times = think_times(profile.solo_ms, load, seed, 2, random_phase=random_phase)
    return summarise(play(gpu, tenants, times, system, extra_slowdown=extra_slowdown), tenants, WARM_UP)


def crowd(name: str, system: System, *, extra_slowdown: float = 0.0, gpu: GpuSpec = A100) -> tuple[Cell, Outcome]:
    """Four or eight requests at once with uneven quotas."""
    app, quotas = MULTI[name]
    profile = synthesise(app, gpu.sms)
    tenants = [Tenant(profile, q, iso_ms(profile, q, gpu)) for q in quotas]
    outcome = play(gpu, tenants, np.zeros((len(quotas), 1)), system, extra_slowdown=extra_slowdown)
    return summarise(outcome, tenants, 0), outcome


def mixed(system: System, seed: int, *, gpu: GpuSpec = A100) -> float:
    """Equation 2's goodput under mixed load: two tight services, a slow one, and a batch job that never rests."""
    names = ("ResNet50", "BERT-small", "ResNet101", "NasNet")
    slack = (1.5, 1.5, 3.0, 30.0)
    weights = (3.0, 2.0, 1.0, 0.5)
    load = (0.25, 0.25, 0.25, 0.35)
    requests = 60
    rng = np.random.default_rng(seed)
    profiles = [synthesise(A100_APPS[name], gpu.sms) for name in names]
    span = max(p.solo_ms / part for p, part in zip(profiles, load, strict=True)) * requests
    longest = round(span * max(part / p.solo_ms for p, part in zip(profiles, load, strict=True)))
    times = np.full((len(names), longest), np.inf)
    for row, (profile, part) in enumerate(zip(profiles, load, strict=True)):
        count = min(times.shape[1], round(span * part / profile.solo_ms))
        times[row, :count] = np.cumsum(rng.exponential(profile.solo_ms / part, count))
    tenants = [
        Tenant(p, 0.25, p.solo_ms * factor, weight)
        for p, factor, weight in zip(profiles, slack, weights, strict=True)
    ]
    outcome = play(gpu, tenants, times, system, closed=False)
    earned = 0.0
    for row, tenant in enumerate(tenants):
        latency = outcome.latency_ms[row][np.isfinite(times[row])]
        worth = np.where(latency <= tenant.target_ms, 1.0, (tenant.target_ms / latency) ** 2)
        earned += tenant.weight * float(np.mean(worth))
    return earned / sum(weights)


def squad_gain(first: str, second: str, counts: tuple[int, int], mode: int, *, gpu: GpuSpec = A100) -> float:
    """Part of the sequential time that running one squad of two applications saves, averaged over 16 offsets."""
    profiles = [synthesise(A100_APPS[name], gpu.sms) for name in (first, second)]
    system = msgspec.structs.replace(SYSTEMS["BLESS-R"], squad_kernels=sum(counts) + 1, squad_mode=mode)
    saved = []
    for offset in range(16):
        cuts = [_cut(p, offset * step, n) for p, step, n in zip(profiles, (29, 23), counts, strict=True)]
        outcome = play(gpu, [Tenant(c, 0.5) for c in cuts], np.zeros((2, 1)), system)
        alone = sum(c.solo_ms for c in cuts)
        saved.append(1.0 - (outcome.end_ms - gpu.squad_switch_ms - gpu.launch_ms) / alone)
    return float(np.mean(saved))


def summarise(outcome: Outcome, tenants: Sequence[Tenant], warm_up: int) -> Cell:
    """One cell from a run; the first requests of every client are dropped."""
    latency = outcome.latency_ms[:, warm_up:]
    done = ~np.isnan(latency)
    over = latency / np.array([t.target_ms for t in tenants])[:, None]
    return Cell(
        mean_ms=float(np.mean(latency[done])),
        p99=float(np.quantile(over[done], 0.99)),
        missed=float(np.mean(over[done] > 1.0)),
        busy=outcome.busy,
        bubble=outcome.bubble,
        worst=float(np.max(np.nanmean(over, axis=1))),
    )


def _cut(profile: Profile, start: int, count: int) -> Profile:
    """`count` kernels from `start`, going round."""
    at = [(start + i) % len(profile.ms) for i in range(count)]
    return Profile(
        profile.name,
        tuple(profile.sms[i] for i in at),
        tuple(profile.ms[i] for i in at),
        tuple(profile.sense[i] for i in at),
        tuple(profile.press[i] for i in at),
        tuple(profile.memory[i] for i in at),
    )
