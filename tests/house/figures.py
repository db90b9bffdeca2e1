"""What this codebase measures: lengths, tests, layers, complexity, types, dead code, noticed faults.

    make figures            everything that takes seconds
    make figures ARGS=--types     with mypy's report of expressions whose type is Any, about a minute more

Nothing here can fail a build; designs/0190 compares the figures with those of the codebases we learn from.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.house.mutants import KEPT, ROOT, TESTS, Verdict, digest


def main() -> None:
    arguments = argparse.ArgumentParser(description="figures of the codebase")
    arguments.add_argument("--types", action="store_true", help="how many expressions are of type Any (slow)")
    asked = arguments.parse_args()
    source, tests = sorted(ROOT.glob("src/**/*.py")), sorted(ROOT.glob("tests/**/*.py"))
    _say("source", _sizes(source))
    _say("tests", _sizes(tests))
    written, tested = _lines(source), _lines(tests)
    _say("lines", f"{written} of source, {tested} of tests, {tested / written:.2f} for each")
    _say("functions", _spread("lines", list(_function_lines(source))))
    _say("complexity", _complexity())
    _say("layers", _last_line("lint-imports"))
    _say("dead code", _dead())
    _say("types", _any_share() if asked.types else "asked with --types")
    for package in TESTS:
        _say(f"faults in {package}", _noticed(package))


def _say(what: str, found: str) -> None:
    print(f"{what:16} {found}", flush=True)


def _lines(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def _sizes(paths: list[Path]) -> str:
    # What is empty, or holds a docstring alone, tells nothing about how long files get.
    return _spread("lines", [size for path in paths if (size := len(path.read_text().splitlines())) > 5])


def _spread(unit: str, sizes: list[int]) -> str:
    high = statistics.quantiles(sizes, n=100)
    return f"{len(sizes)}, median {statistics.median(sizes):.0f} {unit}, p95 {high[94]:.0f}, longest {max(sizes)}"


def _function_lines(paths: list[Path]) -> Iterator[int]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1


def _complexity() -> str:
    """McCabe's number of every function, as ruff counts it."""
    found = _run(
        "ruff", "check", "src", "--select=C901", "--config=lint.mccabe.max-complexity=0", "--output-format=json"
    )
    numbers = [int(re.findall(r"\((\d+) > ", one["message"])[0]) for one in json.loads(found)]
    return _spread("ways", numbers)


def _dead() -> str:
    """What vulture, fetched for the occasion, is fairly sure of."""
    found = _run("uv", "tool", "run", "vulture", "src", "tests", "lab", "--min-confidence", "80")
    return (
        f"{len(found.splitlines())} places that vulture is 80 % sure of" if found else "none that vulture is sure of"
    )


def _any_share() -> str:
    with tempfile.TemporaryDirectory() as folder:
        _run("mypy", "src", "--any-exprs-report", folder)
        total = (Path(folder) / "any-exprs.txt").read_text().split("Total")[1].split()
    return f"{total[2]} of {total[1]} expressions have a type that is not Any"


def _noticed(package: str) -> str:
    kept = KEPT / f"{package}.jsonl"
    if not kept.exists():
        return "make mutants counts them"
    last = {}
    for line in kept.read_bytes().splitlines():
        verdict = msgspec.json.decode(line, type=Verdict)
        if verdict.source == digest([ROOT / verdict.mutant.file]):
            last[verdict.mutant] = verdict
    seen = sum(verdict.by is not None for verdict in last.values())
    return f"{seen} of {len(last)} noticed, {seen / len(last):.0%}"


def _last_line(*command: str) -> str:
    lines = [line for line in _run(*command).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no answer"


def _run(*command: str) -> str:
    """The programs beside this interpreter; their exit code is an opinion, their output the figure."""
    program = Path(sys.executable).parent / command[0]
    return subprocess.run([str(program), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False).stdout


if __name__ == "__main__":
    main()
