"""Hostile bytes for every parser, fast: no crash, no second, no half gigabyte.

    make fuzz                                     1,000,000 inputs; goes on where it was interrupted
    python -m tests.fuzz --inputs 20000 --seed 7
    python -m tests.fuzz --again pods/1/1234      one input again, by the name of its finding

Input number N of a target follows from the seed and N alone.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import hostile
from tests.fuzz.targets import TARGETS, Target

SLOW_S = 1.0
MOST_MIB = 512
BATCH = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", default="", help="TARGET/SEED/NUMBER of one finding")
    parser.add_argument("--resume", type=Path, default=Path("build/fuzz.jsonl"))
    asked = parser.parse_args()
    if asked.again:
        name, seed, number = asked.again.split("/")
        target = next(one for one in TARGETS if one.name == name)
        data = made(target, int(seed), int(number))
        print(data)
        target.read(data)
        return
    asked.resume.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in asked.resume.read_text().splitlines()] if asked.resume.exists() else []
    for first in range(len(done) * BATCH, asked.inputs, BATCH):
        result = batch(asked.seed, first, min(BATCH, asked.inputs - first))
        done.append(result)
        with asked.resume.open("a") as file:
            file.write(json.dumps(result) + "\n")
        print(json.dumps(result), file=sys.stderr, flush=True)
    print(json.dumps(summed(done)))
    sys.exit(any(one["findings"] for one in done))


def batch(seed: int, first: int, inputs: int) -> dict[str, Any]:
    """So many inputs over all targets, each by its share, from the one with this number on."""
    findings, slowest = [], ("", 0.0)
    for target in TARGETS:
        for number in range(first * target.share // 1000, (first + inputs) * target.share // 1000):
            took_s, found = tried(target, seed, number)
            findings += found
            slowest = max(slowest, (f"{target.name}/{seed}/{number}", took_s), key=lambda pair: pair[1])
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if mib > MOST_MIB:
        findings.append(f"{mib} MiB of memory were used")
    return {"first": first, "inputs": inputs, "findings": findings, "slowest": slowest, "mib": mib}


def tried(target: Target, seed: int, number: int) -> tuple[float, list[str]]:
    data, name = made(target, seed, number), f"{target.name}/{seed}/{number}"
    # Parsers compute and wait for nobody: on a busy machine only their own time tells.
    began, findings = time.process_time(), []
    try:
        target.read(data)
    except target.refusals:
        pass
    except (Exception, RecursionError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        findings.append(f"{name}: {type(error).__name__}: {error} at {where.name}:{where.lineno}"[:300])
    took_s = time.process_time() - began
    if took_s > SLOW_S:
        findings.append(f"{name}: took {took_s:.1f} s")
    return took_s, findings


def made(target: Target, seed: int, number: int) -> bytes:
    return hostile(target.seeds, random.Random(f"{target.name}/{seed}/{number}"))


def summed(done: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "inputs": sum(one["inputs"] for one in done),
        "findings": sum(len(one["findings"]) for one in done),
        "slowest": max((one["slowest"] for one in done), key=lambda pair: pair[1]),
        "mib": max(one["mib"] for one in done),
    }


if __name__ == "__main__":
    main()
