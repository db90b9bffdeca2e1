"""Kills processes at seeded random points under load, and counts what was lost, done twice or out of order.

    make chaos                                                        50 kills on real API servers and etcd
    make chaos ARGS="--world embedded --kills 1000"                   on imitated clusters with SQLite
    make chaos ARGS="--world embedded --store postgres --kills 1000"  plane, agents, gateway and database
    make chaos ARGS="--world embedded --network --kills 200"          and a bad network between plane and agents
    make chaos ARGS="--world embedded --round 1017"                   one round again, by the seed it has told

A run is made of rounds, each with a fresh world; finished ones are kept in the resume file, where an interrupted run
goes on. What is random follows from the seed; how fast the machine is does not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.chaos.embedded import Asked, rounds

# A round of the embedded world begins with seconds of set-up, one of the lab with a minute.
KILLS = {"embedded": 50, "lab": 5}
SUMS = ("jobs", "answers", "generations", "points", "submissions", "repeated", "anew")
BAD = ("lost", "twice", "order", "books", "audit", "overcommitted")


def main() -> None:
    asked = _parser().parse_args()
    default = f"build/chaos-{asked.world}{'-' + asked.store if asked.world == 'embedded' else ''}"
    path: Path = asked.resume or Path(f"{default}{'-network' if asked.network else ''}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() and not asked.round else []
    each = KILLS[asked.world]
    seeds = [asked.seed * 1000 + number for number in range(len(done), -(-asked.kills // each))]
    for result in _results(asked, [asked.round] if asked.round else seeds, each):
        done.append(result)
        if not asked.round:
            with path.open("a") as file:
                file.write(json.dumps(result) + "\n")
        print(json.dumps(result), file=sys.stderr, flush=True)
    summary = summed(done)
    print(json.dumps(summary))
    sys.exit(any(summary[what] for what in BAD))


def summed(done: list[dict[str, Any]]) -> dict[str, Any]:
    killed: Counter[str] = Counter()
    for one in done:
        killed.update(one["killed"])
    bad = {what: sum(len(one.get(what, ())) for one in done) for what in BAD}
    slowest = max((one["settled_s"] for one in done), default=0.0)
    sums = {what: sum(one.get(what, 0) for one in done) for what in SUMS}
    return {"kills": killed.total(), "killed": dict(killed), **sums, **bad, "slowest_settled_s": slowest}


def _results(asked: argparse.Namespace, seeds: list[int], each: int) -> Iterator[dict[str, Any]]:
    if asked.world == "embedded":
        if asked.network:
            # With a bad network it takes longer until something has happened that a kill could undo.
            yield from rounds([Asked(seed, each, asked.store, network=True, life_s=6.0) for seed in seeds])
            return
        yield from rounds([Asked(seed, each, asked.store) for seed in seeds])
        return
    from tests.kube.chaos import JOBS_PER_ROUND, play

    for seed in seeds:
        yield play(seed, each, JOBS_PER_ROUND)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", choices=("lab", "embedded"), default="lab")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite", help="of the embedded world")
    parser.add_argument("--network", action="store_true", help="a bad network between plane and agents (embedded)")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, default=0, help="play this round alone and keep nothing")
    parser.add_argument("--resume", type=Path, help="the file of finished rounds; below build/ if left out")
    return parser


if __name__ == "__main__":
    main()
