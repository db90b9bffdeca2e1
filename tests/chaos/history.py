"""What everybody saw of a run, and whether any order of events explains it. Pure; knows neither plane nor scheduler.

A workload is a register whose version only rises. Versions name the order of its writes, so a history of it can be
linearised exactly when no answer shows an older version than an answer that had ended before it was asked for, all
who saw one version saw the same, and an end stands for ever. Beside that stands what its clusters did: one home at
a time, one start for each generation, one success; and what the journal says: generations one by one, in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

ENDED = ("done", "failed", "cancelled")
MISSING = "missing"


class Answer(msgspec.Struct, frozen=True):
    """One call of a client that was answered. `what` is submit, read or cancel; a read may find nothing."""

    what: str
    name: str
    asked_s: float
    answered_s: float
    uid: str = ""
    version: int = 0
    phase: str = ""


class PodSeen(msgspec.Struct, frozen=True):
    """A pod of an imitated cluster as it was from this moment on."""

    at_s: float
    cluster: str
    uid: str
    generation: int
    index: int
    phase: str
    holds: bool


class Final(msgspec.Struct, frozen=True):
    """A record as the store has it when all is over."""

    name: str
    uid: str
    version: int
    phase: str
    generation: int
    spent_micros: int


class Decided(msgspec.Struct, frozen=True):
    """A line of the journal: `place` of a generation, or `bind` of a pod."""

    seq: int
    kind: str
    name: str
    generation: int = 0
    cluster: str = ""
    pod: str = ""


class Books(msgspec.Struct, frozen=True):
    """`charged_micros` over all tenants and days; hours whose sides differ; device time of pools, told and due."""

    charged_micros: int = 0
    unbalanced: tuple[str, ...] = ()
    posted_ms: int = 0
    due_ms: int = 0
    tolerance_ms: int = 0


class History(msgspec.Struct, frozen=True):
    """`pods` is None where others watch the clusters."""

    answers: tuple[Answer, ...]
    pods: tuple[PodSeen, ...] | None
    finals: tuple[Final, ...]
    journal: tuple[Decided, ...]
    books: Books = Books()
    audit: tuple[str, ...] = ()


class Judgement(NamedTuple):
    """Empty everywhere when all is well; otherwise sentences."""

    lost: list[str]
    twice: list[str]
    order: list[str]
    books: list[str]
    audit: list[str]


def judge(history: History) -> Judgement:
    return Judgement(
        lost=[*_lost(history)],
        twice=[*_ran_twice(history.pods, history.finals)] if history.pods is not None else [],
        order=[*_registers(history), *_generations(history), *_binds(history)],
        books=[*_books(history)],
        audit=[*history.audit],
    )


def _lost(history: History) -> Iterator[str]:
    """What was accepted is there, once, and has ended; what is there was asked for."""
    finals = defaultdict(list)
    for one in history.finals:
        finals[one.name].append(one)
    accepted = {one.name: one.uid for one in history.answers if one.what == "submit"}
    for name, uid in sorted(accepted.items()):
        found = finals.get(name, [])
        if [one.uid for one in found] != [uid]:
            yield f"{name} was accepted as {uid}, found as {[one.uid for one in found]}"
        elif found[0].phase not in ENDED:
            yield f"{name} is still {found[0].phase}"
    for name in sorted(finals.keys() - accepted.keys()):
        yield f"{name} is there and was never accepted"


def _registers(history: History) -> Iterator[str]:
    finals = {one.name: one for one in history.finals}
    by_name: dict[str, list[Answer]] = defaultdict(list)
    for one in history.answers:
        by_name[one.name].append(one)
    for name, answers in sorted(by_name.items()):
        yield from _register(name, answers, finals.get(name))


def _register(name: str, answers: list[Answer], final: Final | None) -> Iterator[str]:
    phases: dict[int, str] = {}
    for one in answers:
        if one.phase and phases.setdefault(one.version, one.phase) != one.phase:
            yield f"{name}@{one.version} was both {phases[one.version]} and {one.phase}"
    yield from _never_back(name, answers)
    if final is not None:
        newest = max((one.version for one in answers), default=0)
        if newest > final.version:
            yield f"{name}@{newest} was read, but only {final.version} was kept"
        for version, phase in sorted(phases.items()):
            if phase in ENDED and phase != final.phase:
                yield f"{name}@{version} had ended as {phase} and is now {final.phase}"


def _never_back(name: str, answers: list[Answer]) -> Iterator[str]:
    """By real time: what had been answered before a question was asked bounds its answer from below."""
    moments = sorted(
        [(one.asked_s, 1, one) for one in answers] + [(one.answered_s, 0, one) for one in answers],
        key=lambda moment: moment[:2],
    )
    known, floor = 0, dict[int, int]()
    for _, asks, one in moments:
        if asks:
            floor[id(one)] = known
            continue
        if one.version < floor.get(id(one), 0):
            yield f"{name}: {one.phase or one.what}@{one.version} was answered after @{floor[id(one)]} was known"
        known = max(known, one.version)


def _ran_twice(pods: Sequence[PodSeen], finals: Sequence[Final]) -> Iterator[str]:
    yield from _started_twice(pods)
    yield from _two_homes(pods)
    yield from _ended_twice(pods, finals)


def _started_twice(pods: Sequence[PodSeen]) -> Iterator[str]:
    """A pod that was held, let go and held again is a second run of the same decision."""
    runs: Counter[tuple[str, int, int]] = Counter()
    held: set[tuple[str, str, int, int]] = set()
    for one in pods:
        key = (one.cluster, one.uid, one.generation, one.index)
        if one.holds and key not in held:
            held.add(key)
            runs[one.uid, one.generation, one.index] += 1
        elif not one.holds:
            held.discard(key)
    for (uid, generation, index), count in sorted(runs.items()):
        if count > 1:
            yield f"{uid}/{generation} pod {index} was started {count} times"


def _two_homes(pods: Sequence[PodSeen]) -> Iterator[str]:
    """At no moment do pods of two generations, or on two clusters, hold devices for one workload."""
    holding: dict[str, dict[tuple[str, int, int], None]] = defaultdict(dict)
    told = set()
    for one in sorted(pods, key=lambda seen: (seen.at_s, seen.holds)):
        homes = holding[one.uid]
        if one.holds:
            homes[one.cluster, one.generation, one.index] = None
        else:
            homes.pop((one.cluster, one.generation, one.index), None)
        places = {(cluster, generation) for cluster, generation, _ in homes}
        if len(places) > 1 and one.uid not in told:
            told.add(one.uid)
            yield f"{one.uid} had {len(places)} homes at {one.at_s:.3f}: {sorted(places)}"


def _ended_twice(pods: Sequence[PodSeen], finals: Sequence[Final]) -> Iterator[str]:
    """One success for what is done, none for anything else that started anew."""
    succeeded: Counter[tuple[str, int]] = Counter()
    generations: dict[str, set[int]] = defaultdict(set)
    for one in pods:
        if one.phase == "succeeded":
            succeeded[one.uid, one.index] += 1
            generations[one.uid].add(one.generation)
    for (uid, index), count in sorted(succeeded.items()):
        if count > 1:
            yield f"{uid} pod {index} succeeded {count} times, in generations {sorted(generations[uid])}"
    for final in finals:
        if final.phase == "done" and not generations[final.uid]:
            yield f"{final.name} is done and no cluster has done it"


def _generations(history: History) -> Iterator[str]:
    placed: dict[str, list[int]] = defaultdict(list)
    for one in sorted(history.journal, key=lambda line: line.seq):
        if one.kind == "place":
            placed[one.name].append(one.generation)
    for final in history.finals:
        found = placed.get(final.name, [])
        if found != list(range(1, final.generation + 1)):
            yield f"{final.name} has generation {final.generation}, the journal placed {found}"


def _binds(history: History) -> Iterator[str]:
    binds = Counter((one.cluster, one.pod) for one in history.journal if one.kind == "bind")
    for (cluster, pod), count in sorted(binds.items()):
        if count > 1:
            yield f"the journal has {count} binds of {pod} on {cluster}"


def _books(history: History) -> Iterator[str]:
    books = history.books
    spent = sum(one.spent_micros for one in history.finals)
    if spent != books.charged_micros:
        yield f"workloads spent {spent}, tenants were charged {books.charged_micros}"
    for one in books.unbalanced:
        yield f"the ledger does not balance: {one}"
    if abs(books.posted_ms - books.due_ms) > books.tolerance_ms:
        yield f"the ledger has {books.posted_ms} ms of devices, {books.due_ms} were there"


def explained(judgement: Judgement, limit: int = 20) -> dict[str, list[str]]:
    """The findings by kind, cut to a readable number."""
    return {kind: found[:limit] for kind, found in judgement._asdict().items()}
