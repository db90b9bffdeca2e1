"""How many small faults the tests of a package notice, on a sample that a seed draws.

    make mutants                                  the four packages, 100 faults each
    python -m tests.house.mutants pack --sample 40 --seed 7 --survivors

Each fault lives in a fork of this process that loads one module with it and runs the tests that touch its function,
the quickest first, until one fails. Nothing is written into the source tree: compiled kernels stay as they are, and a
fault in a module of kernels is run without compiling. What was found out is kept in build/mutants, so that a later
run asks only what is new: faults of a changed file, and survivors once the tests have changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.machinery
import importlib.metadata
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import hypothesis
import msgspec
import numba
import pytest

from tests.house.mutate import faulty, places

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mutants"
# Whose tests may notice a fault: the package's own, and quick ones of the package that turns it.
TESTS = {
    "model": ("model",),
    "place": ("place", "plane"),
    "pack": ("pack", "agent"),
    "route": ("route", "gateway"),
}
LEFT_OUT = "not lab and not postgres and not browser and not slow and not full and not data"


class Mutant(msgspec.Struct, frozen=True):
    file: str
    number: int
    line: int
    function: int
    fault: str


class Verdict(msgspec.Struct, frozen=True):
    """`by` is the test that noticed; nobody means that the fault survived. `source` and `tests` are digests."""

    mutant: Mutant
    by: str | None
    source: str
    tests: str


class Touched(msgspec.Struct):
    """What one test took, in seconds of CPU, and the functions it went through as `file:line`."""

    cpu_s: float = 0.0
    functions: set[str] = set()


def main() -> None:
    arguments = argparse.ArgumentParser(description="mutation score of packages of the core")
    arguments.add_argument("packages", nargs="*", default=list(TESTS))
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--sample", type=int, default=100, help="faults for each package")
    arguments.add_argument("--survivors", action="store_true", help="list what no test noticed")
    asked = arguments.parse_args()
    hypothesis.settings.register_profile(
        "mutants",
        derandomize=True,
        deadline=None,
        database=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    )
    os.environ["DURE_LAB"] = "0"
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()  # here once instead of in every fork
    for package in asked.packages:
        verdicts = judged(package, asked.seed, asked.sample)
        killed = sum(verdict.by is not None for verdict in verdicts)
        print(f"{package}: {killed} of {len(verdicts)} noticed, {killed / len(verdicts):.1%}", flush=True)
        if asked.survivors:
            for verdict in sorted(verdicts, key=lambda one: (one.mutant.file, one.mutant.line)):
                if verdict.by is None:
                    print(f"  {verdict.mutant.file}:{verdict.mutant.line}: {verdict.mutant.fault}")


def judged(package: str, seed: int, size: int) -> list[Verdict]:
    KEPT.mkdir(parents=True, exist_ok=True)
    kept_at = KEPT / f"{package}.jsonl"
    kept: dict[Mutant, Verdict] = {}
    if kept_at.exists():
        for line in kept_at.read_bytes().splitlines():
            verdict = msgspec.json.decode(line, type=Verdict)
            kept[verdict.mutant] = verdict
    tests = digest(_test_files(package))
    touched: dict[str, Touched] | None = None
    verdicts = []
    for mutant in sample(package, seed, size):
        source = digest([ROOT / mutant.file])
        known = kept.get(mutant)
        if known and known.source == source and (known.by is not None or known.tests == tests):
            verdict = known
        else:
            touched = touched or touched_by_tests(package)
            verdict = Verdict(mutant, noticed_by(mutant, touched), source, tests)
            with kept_at.open("ab") as out:
                out.write(msgspec.json.encode(verdict) + b"\n")
            print(
                f"{mutant.file}:{mutant.line}: {mutant.fault}: {verdict.by or 'SURVIVED'}",
                file=sys.stderr,
                flush=True,
            )
        verdicts.append(verdict)
    return verdicts


def sample(package: str, seed: int, size: int) -> list[Mutant]:
    """The first so many of an order that the seed draws: a larger sample holds the smaller one, and what is written
    elsewhere does not change who is drawn."""
    every = []
    for path in sorted((ROOT / "src" / "dure" / package).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for number, place in enumerate(places(ast.parse(path.read_text()))):
            every.append(Mutant(file, number, place.line, place.function, place.fault))
    return sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.file} {one.number}".encode()).digest())[:size]


def touched_by_tests(package: str) -> dict[str, Touched]:
    """Each test alone in its tracks, without compiled code; kept as long as neither tests nor sources change."""
    files = [*_test_files(package), *(ROOT / "src" / "dure" / package).rglob("*.py")]
    kept_at = KEPT / f"{package}-{digest(files)}.json"
    if not kept_at.exists():
        print(f"{package}: which test touches what ...", file=sys.stderr, flush=True)
        tracks = _Tracks(f"{ROOT}/src/dure/{package}/")

        def baseline() -> int:
            numba.config.DISABLE_JIT = True
            code = _run_tests([_folder(name) for name in TESTS[package]], tracks)
            if code == 0:
                kept_at.write_bytes(msgspec.json.encode(tracks.tests))
            return code

        if code := _forked(baseline, None):
            raise SystemExit(f"the tests of {package} fail without any fault: pytest answers {code}")
    return msgspec.json.decode(kept_at.read_bytes(), type=dict[str, Touched])


def noticed_by(mutant: Mutant, touched: dict[str, Touched]) -> str | None:
    wanted = f"{mutant.file}:{mutant.function}"
    chosen = {name: test.cpu_s for name, test in touched.items() if wanted in test.functions}
    if not chosen:
        return None
    text = (ROOT / mutant.file).read_text()
    code = compile(faulty(text, mutant.number), str(ROOT / mutant.file), "exec")
    note = KEPT / f"{os.getpid()}.failed"
    note.unlink(missing_ok=True)

    def with_fault() -> int:
        numba.config.DISABLE_JIT = "numba" in text
        _load_instead(ROOT / mutant.file, code)
        files = sorted({str(ROOT / name.split("::")[0]) for name in chosen})
        return _run_tests(files, _Quickest(chosen, note))

    exited = _forked(with_fault, int(30 + 4 * sum(chosen.values())))
    if exited == 0:
        return None
    by = note.read_text() if note.exists() else f"exit {exited}"
    note.unlink(missing_ok=True)
    return by


class _Tracks:
    """A pytest plugin that notes which functions of a package each test goes through."""

    def __init__(self, prefix: str) -> None:
        self.tests: dict[str, Touched] = {}
        self._prefix = prefix
        self._names: dict[CodeType, str | None] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        test = self.tests[item.nodeid] = Touched(functions=set())
        seen = test.functions

        def profile(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and (name := self._name(frame.f_code)):
                seen.add(name)

        began_s = time.process_time()
        sys.setprofile(profile)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            test.cpu_s = time.process_time() - began_s

    def _name(self, code: CodeType) -> str | None:
        if code not in self._names:
            file = code.co_filename
            inside = file.startswith(self._prefix)
            self._names[code] = f"{file[len(str(ROOT)) + 1 :]}:{code.co_firstlineno}" if inside else None
        return self._names[code]


class _Quickest:
    """A pytest plugin that runs the chosen tests alone, the quickest first, and writes down the one that failed."""

    def __init__(self, chosen: dict[str, float], note: Path) -> None:
        self._chosen, self._note = chosen, note

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._chosen), key=lambda item: self._chosen[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note.write_text(report.nodeid)


def _run_tests(paths: list[str], plugin: object) -> int:
    quiet = ["-q", "-x", "-p", "no:xdist", "--hypothesis-profile=mutants", "-m", LEFT_OUT]
    # Hashes of states wrap around in plain Python too, where numpy says so.
    quiet += ["-W", "ignore:overflow encountered:RuntimeWarning", f"--rootdir={ROOT}"]
    quiet += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the plugins are there already
    return int(pytest.main([*quiet, *paths], plugins=[plugin]))


def _forked(work: Callable[[], int], cpu_s: int | None) -> int:
    """Runs it in a child; answers its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        if cpu_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
        os._exit(work())
    except BaseException:  # whatever happens in the child, it must not go on as a second parent
        traceback.print_exc()
        os._exit(70)


def _load_instead(path: Path, code: CodeType) -> None:
    loader: Any = importlib.machinery.SourceFileLoader
    usual = loader.get_code
    loader.get_code = lambda self, name: code if Path(self.path) == path else usual(self, name)


def _folder(name: str) -> str:
    return str(ROOT / "tests" / "unit" / name)


def _test_files(package: str) -> list[Path]:
    return [path for name in TESTS[package] for path in Path(_folder(name)).rglob("*.py")]


def digest(paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


if __name__ == "__main__":
    main()
