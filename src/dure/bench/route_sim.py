"""Routing experiments in virtual time: runs, the published clock, the optimum, random mixes. For `bench.route`."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from dure.bench.result import Row
from dure.model.units import Instant, Seconds
from dure.route import rechoose, reroute
from dure.route.policies import DEFAULT, Policy, looks_again, policy
from dure.route.seed import Settings as SeedSettings
from dure.sim.queues.mix import Mix
from dure.sim.queues.mixes import burst, uniform
from dure.sim.queues.optimum import Optimum, optimum
from dure.sim.queues.world import SLOT, Again, Laws, Run, World

PUBLISHED_S = {
    ("uniform", "static"): 201.6,
    ("uniform", "seed"): 172.8,
    ("burst", "static"): 235.5,
    ("burst", "seed"): 208.2,
}
# The published client: what a call took, how often it polled, how many idle readings it wanted.
PUBLISHED_LAWS = Laws(submit_s=0.1, submit_light_s=0.2)
POLL_S = 5.4
IDLE_READINGS = 3
PUBLISHED_JITTER = 0.05
PUBLISHED_SEEDS = 40
_SEED = SeedSettings(scarce=SLOT, plenty=SLOT)


class Played(NamedTuple):
    row: Row
    run: Run


class Wanted(NamedTuple):
    """How to play: which policies, what chance, what each job costs besides running."""

    policies: tuple[str, ...]
    repeats: int = 1
    jitter: float = 0.0
    seed: int = 0
    laws: Laws = Laws()
    limit_s: Seconds = 20.0


def play(mix: Mix, name: str, seed: int, jitter: float, laws: Laws) -> Run:
    chosen = policy(name, seed_settings=_SEED)
    return World(mix, chosen, _again(name, chosen), laws, _chance(seed, jitter)).play()


def _again(name: str, chosen: Policy) -> Again | None:
    """As the gateway's mover looks again: jointly for the earliest end, by its own weights for any other policy."""
    if name == DEFAULT:
        return reroute.plan
    return partial(rechoose.plan, choose=chosen) if looks_again(name) else None


def rows_of(mix: Mix, wanted: Wanted) -> Iterator[Played]:
    """Every policy on this mix, and the optimum of the true times beside it."""
    for repeat in range(wanted.repeats):
        seed = wanted.seed + repeat
        runs = {name: play(mix, name, seed, wanted.jitter, wanted.laws) for name in wanted.policies}
        best = _optimum(mix, min(run.makespan_s for run in runs.values()), seed, wanted)
        for name, run in runs.items():
            yield Played(_row(mix, name, seed, run, best), run)


def published_rows() -> list[Row]:
    """The four published cells, told by the published script's clock, as means over seeds."""
    found: list[Row] = []
    for mix, pause_s in ((uniform(), 1.0), (burst(), 0.0)):
        for name in ("static", "seed"):
            laws = PUBLISHED_LAWS if name == "seed" else Laws(submit_s=0.1, submit_light_s=0.1)
            sent, done_s = _sent(mix, pause_s, laws)
            runs = [play(sent, name, seed, PUBLISHED_JITTER, laws) for seed in range(PUBLISHED_SEEDS)]
            told = statistics.fmean(script_clock_s(run, done_s) for run in runs)
            published = PUBLISHED_S[mix.name, name]
            found.append(
                {
                    "scenario": f"{mix.name}, published clock",
                    "policy": name,
                    "seed": 0,
                    "makespan_s": round(told, 1),
                    "mean_wait_s": round(statistics.fmean(run.mean_wait_s for run in runs), 1),
                    "optimum_s": None,
                    "moved": round(statistics.fmean(run.moved for run in runs), 2),
                    "published_s": published,
                    "off": round(told / published - 1, 4),
                }
            )
    return found


def script_clock_s(run: Run, started_s: Instant) -> Seconds:
    """The published script starts its clock after the last submission and wants three idle readings in a row."""
    busy = max(stay.ended_s for stay in run.stays) - started_s
    return math.ceil(busy / POLL_S) * POLL_S + (IDLE_READINGS - 1) * POLL_S


def _sent(mix: Mix, pause_s: Seconds, laws: Laws) -> tuple[Mix, Instant]:
    """The published client hands in one job after the other and pauses after each; also when it was done."""
    at, jobs = 0.0, []
    for job in mix.jobs:
        jobs.append(replace(job, arrival_s=at))
        at += pause_s + (laws.submit_light_s if job.kind == "light" else laws.submit_s)
    return replace(mix, jobs=tuple(jobs)), at


def _row(mix: Mix, name: str, seed: int, run: Run, best: Optimum) -> Row:
    row: dict[str, str | int | float | bool | None] = {
        "scenario": mix.name,
        "policy": name,
        "seed": seed,
        "makespan_s": round(run.makespan_s, 3),
        "mean_wait_s": round(run.mean_wait_s, 3),
        "optimum_s": round(best.makespan_s, 3),
        "moved": run.moved,
        "above_optimum": round(run.makespan_s / best.makespan_s - 1, 4),
    }
    if not best.proven:
        row["optimum_bound_s"] = round(best.bound_s, 3)
    return row


def _optimum(mix: Mix, reached_s: Seconds, seed: int, wanted: Wanted) -> Optimum:
    """On the true durations: jitter and turnaround are what the clairvoyant knows."""
    chance, held = _chance(seed, wanted.jitter), wanted.laws.turnaround_s
    return optimum(true_mix(mix, chance, held), reached_s, wanted.limit_s)


def true_mix(mix: Mix, chance: Callable[[str, str], float], held_s: Seconds) -> Mix:
    jobs = tuple(
        replace(job, run_s={queue: s * chance(job.name, queue) + held_s for queue, s in job.run_s.items()})
        for job in mix.jobs
    )
    return replace(mix, jobs=jobs)


def _chance(seed: int, jitter: float) -> Callable[[str, str], float]:
    """A factor around 1 for each job and queue, the same in every policy's run."""

    def factor(job: str, queue: str) -> float:
        if not jitter:
            return 1.0
        digest = hashlib.blake2b(f"{seed}/{job}/{queue}".encode(), digest_size=8).digest()
        return 1.0 + jitter * (2 * int.from_bytes(digest) / 2**64 - 1)

    return factor
