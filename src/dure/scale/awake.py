"""Which engine of a machine is awake: every service of a share has one on every machine, and all but one sleep.

Called by `agent.awake` with what was seen of pods and engines and with how many machines each service should have.
A hand-over is never kept in mind: what was intended is a mark on the engine that is next, and every step follows
from what is seen, so whoever looks next goes on. It goes: choose the next, drain the one that serves, put it to
sleep, wake the next, let it serve. Invariant: none is woken beside one that is or may be awake. Pure, and the same
for any order of engines. Cost: O(moves x machines x services).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from dure.model.pulse import Rest
from dure.model.units import Instant, Seconds


class Marks(msgspec.Struct, frozen=True):
    """What is written on a pod: whether requests are sent to it, since when it is its machine's next, since when it
    drains, when it could not be woken last, and whether it goes before others do."""

    serves: bool = False
    next_s: Instant | None = None
    drains_s: Instant | None = None
    failed_s: Instant | None = None
    goes: bool = False


class EnginePod(msgspec.Struct, frozen=True):
    """A pod of a service on a node, as its cluster shows it; `url` is where its engine answers."""

    service: str
    node: str
    name: str
    url: str
    ready: bool = True
    born_s: Instant = 0.0
    marks: Marks = Marks()


class State(enum.StrEnum):
    """What is known of an engine. One that is silent may be awake or starting; one that is lost computes nothing."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    SILENT = "silent"
    LOST = "lost"


class Engine(msgspec.Struct, frozen=True):
    pod: EnginePod
    state: State
    in_flight: int = 0

    @property
    def marks(self) -> Marks:
        return self.pod.marks

    @property
    def service(self) -> str:
        return self.pod.service

    @property
    def answers(self) -> bool:
        return self.state in (State.AWAKE, State.ASLEEP)


class Machine(msgspec.Struct, frozen=True):
    """A node and its engines, by service; `whole` where every service of the share has one."""

    node: str
    engines: tuple[Engine, ...]
    whole: bool

    @property
    def owner(self) -> Engine | None:
        """The one that is next, else the one that serves."""
        waiting = [one for one in self.engines if one.marks.next_s is not None and one.state is not State.LOST]
        if waiting:
            return max(waiting, key=lambda one: one.marks.next_s or 0.0)
        return next((one for one in self.engines if one.marks.serves and one.state is State.AWAKE), None)

    @property
    def known(self) -> bool:
        """Nothing about it is unknown, so it may change hands."""
        return self.whole and not self.goes and all(one.state is not State.SILENT for one in self.engines)

    @property
    def idle(self) -> bool:
        return self.owner is None and all(one.state in (State.ASLEEP, State.LOST) for one in self.engines)

    @property
    def goes(self) -> bool:
        return any(one.marks.goes for one in self.engines)

    def of(self, service: str) -> Engine | None:
        return next((one for one in self.engines if one.service == service), None)


class Act(enum.StrEnum):
    CHOOSE = "choose"
    DRAIN = "drain"
    SLEEP = "sleep"
    ABORT = "abort"
    WAKE = "wake"
    SERVE = "serve"
    GIVE_UP = "give up"


class Step(msgspec.Struct, frozen=True):
    """`ABORT` is a sleep although requests are inside; `GIVE_UP` one that is next and has not come to serve."""

    act: Act
    engine: Engine


class HandoverSettings(msgspec.Struct, frozen=True):
    """Who sends has `settle_s` to see that one drains. One that has been next for `drain_s` and `patience_s` is given
    up and not tried again for `rest_s`."""

    drain_s: Seconds = 60.0
    settle_s: Seconds = 1.0
    patience_s: Seconds = 60.0
    rest_s: Seconds = 300.0


def state_of(pod: EnginePod, rest: Rest | None, now_s: Instant, boot_s: Seconds) -> State:
    """An engine that does not answer is lost where its pod is not ready either and had its time to start."""
    if rest is not None:
        return State.ASLEEP if rest.asleep else State.AWAKE
    return State.LOST if not pod.ready and now_s - pod.born_s > boot_s else State.SILENT


def machines_of(engines: Iterable[Engine], services: Iterable[str]) -> tuple[Machine, ...]:
    """By node; of two pods of one service on a node the first counts, which a rollout may show for a moment."""
    wanted, found = frozenset(services), dict[str, dict[str, Engine]]()
    for one in sorted(engines, key=lambda one: (one.pod.node, one.service, one.pod.name)):
        found.setdefault(one.pod.node, {}).setdefault(one.service, one)
    return tuple(Machine(node, tuple(mine.values()), mine.keys() >= wanted) for node, mine in found.items())


def owned(machines: Iterable[Machine]) -> Counter[str]:
    """Machines of each service, those on their way to it among them; engines that do not answer are not counted."""
    return Counter(one.owner.service for one in machines if one.owner is not None)


def steps(
    machines: Sequence[Machine],
    wanted: Mapping[str, int],
    least: Mapping[str, int],
    now_s: Instant,
    settings: HandoverSettings,
) -> tuple[Step, ...]:
    """What is to be done now. Machines that change hands are marked first; the others go on with what was begun."""
    fits = _fitted(machines, wanted, least)
    changed = _moves(machines, fits, least, now_s, settings)
    found = [step for of_one in changed.values() for step in of_one]
    for machine in machines:
        if machine.node not in changed:
            found += _next_steps(machine, now_s, settings)
    found.sort(key=lambda step: (step.engine.pod.node, step.engine.service))
    return tuple(_kept(machines, found, {name: min(count, least.get(name, 0)) for name, count in fits.items()}))


def marked(step: Step, now_s: Instant) -> Marks:
    """What is written on the pod for a step; the same as before where that is done at the engine."""
    marks = step.engine.marks
    match step.act:
        case Act.CHOOSE:
            return replace(marks, next_s=now_s, drains_s=None, failed_s=None)
        case Act.DRAIN:
            return replace(marks, serves=False, next_s=None, drains_s=now_s)
        case Act.SERVE:
            return replace(marks, serves=True, next_s=None, drains_s=None)
        case Act.GIVE_UP:
            return replace(marks, serves=False, next_s=None, failed_s=now_s)
        case Act.SLEEP | Act.ABORT | Act.WAKE:
            return marks


def sized(machines: Sequence[Machine], there: int, wanted: int) -> tuple[int, tuple[Machine, ...]]:
    """Pods that every service should have, and the machines to be marked as going.

    One goes when its mark has been seen: by then whoever removes pods has seen it too.
    """
    if wanted >= there:
        return wanted, ()
    going = leaving(machines, len(machines) - wanted)
    return min(there, max(wanted, len(machines) - sum(one.goes for one in going))), going


def leaving(machines: Sequence[Machine], count: int) -> tuple[Machine, ...]:
    """Machines to let go, at most so many: only such on which all sleep; those that are marked, then broken ones."""
    idle = [one for one in machines if one.idle]
    idle.sort(key=lambda one: (not one.goes, one.whole and all(each.answers for each in one.engines), one.node))
    return tuple(idle[: max(count, 0)])


def _fitted(machines: Sequence[Machine], wanted: Mapping[str, int], least: Mapping[str, int]) -> dict[str, int]:
    """The least for everybody, and no more than there are machines for: who has most above its least gives way."""
    fits = {name: max(count, least.get(name, 0)) for name, count in sorted(wanted.items())}
    room = sum(one.owner is not None or one.known for one in machines)
    while sum(fits.values()) > room:
        most = max(fits, key=lambda name: (fits[name] - least.get(name, 0), fits[name], name))
        fits[most] -= 1
    return fits


def _moves(
    machines: Sequence[Machine],
    wanted: Mapping[str, int],
    least: Mapping[str, int],
    now_s: Instant,
    settings: HandoverSettings,
) -> dict[str, list[Step]]:
    """By node: free machines to who lacks some, then those of who has too many, the least busy first."""
    count, changed = owned(machines), dict[str, list[Step]]()
    able = [one for one in machines if one.known]

    def choose(taker: str) -> Machine | None:
        best = None
        for one in able:
            engine, owner = one.of(taker), one.owner
            if one.node in changed or engine is None or not _can_wake(engine, now_s, settings):
                continue
            if owner is None or count[owner.service] > wanted.get(owner.service, 0):
                rank = (owner is not None, owner is not None and owner.marks.serves, *_work(one, engine))
                best = min(best, (rank, one), key=lambda pair: pair[0]) if best else (rank, one)
        return best[1] if best else None

    stuck = set[str]()
    while short := [name for name in wanted if count[name] < wanted[name] and name not in stuck]:
        taker = min(short, key=lambda name: (count[name] >= least.get(name, 0), count[name] - wanted[name], name))
        machine = choose(taker)
        if machine is None:
            stuck.add(taker)
            continue
        engine, owner = machine.of(taker), machine.owner
        assert engine is not None, "who cannot be woken there was left out"
        count[taker] += 1
        changed[machine.node] = [Step(Act.CHOOSE, engine)]
        if owner is not None:
            count[owner.service] -= 1
            if owner.marks.next_s is not None:
                changed[machine.node].append(Step(Act.DRAIN, owner))
    for step in _released(machines, count, wanted, changed):
        changed[step.engine.pod.node] = [step]
    return changed


def _kept(machines: Sequence[Machine], found: Sequence[Step], floor: Mapping[str, int]) -> Iterator[Step]:
    """Nobody drains who has no more that serve than its floor, though a machine may be on its way to it: that
    hand-over is undone, and what is on its way is then too much and can be given in its place."""
    owners = {machine.node: machine.owner for machine in machines}
    engines = [one for machine in machines for one in machine.engines]
    serving = Counter(one.service for one in engines if one.marks.serves and one.state is State.AWAKE)
    for step in found:
        one, owner = step.engine, owners[step.engine.pod.node]
        if step.act is Act.DRAIN and one.marks.serves and one.state is State.AWAKE:
            upcoming = owner is not None and owner is not one and owner.marks.next_s is not None
            if owner is not None and upcoming and serving[one.service] <= floor.get(one.service, 0):
                yield Step(Act.DRAIN, owner)
                continue
            serving[one.service] -= 1
        yield step


def _released(
    machines: Sequence[Machine], count: Counter[str], wanted: Mapping[str, int], changed: Mapping[str, object]
) -> Iterator[Step]:
    """Of who has too many, while nobody lacks any: they go to sleep, and then a machine may go."""
    spare = sum(count.values()) - sum(wanted.values())
    owners = [one.owner for one in machines if one.owner is not None and one.node not in changed]
    for owner in sorted(owners, key=lambda one: (one.marks.serves, one.in_flight, one.pod.node)):
        if spare > 0 and count[owner.service] > wanted.get(owner.service, 0):
            spare, count[owner.service] = spare - 1, count[owner.service] - 1
            yield Step(Act.DRAIN, owner)


def _can_wake(engine: Engine, now_s: Instant, settings: HandoverSettings) -> bool:
    failed_s = engine.marks.failed_s
    return engine.answers and (failed_s is None or now_s - failed_s >= settings.rest_s)


def _work(machine: Machine, taker: Engine) -> tuple[int, bool, str]:
    """How little a machine loses by changing hands: what runs on it, unless that is the taker's own."""
    inside = sum(one.in_flight for one in machine.engines if one is not taker)
    return inside, taker.state is not State.AWAKE, machine.node


def _next_steps(machine: Machine, now_s: Instant, settings: HandoverSettings) -> Iterator[Step]:
    owner = machine.owner
    late = settings.drain_s + settings.patience_s
    if owner is not None and owner.marks.next_s is not None and now_s - owner.marks.next_s > late:
        yield Step(Act.GIVE_UP, owner)
        return
    others = [one for one in machine.engines if one is not owner]
    for one in others:
        act = _aside(one, now_s, settings)
        if act is not None:
            yield Step(act, one)
    if owner is None or any(one.state not in (State.ASLEEP, State.LOST) for one in others):
        return
    if owner.state is State.ASLEEP:
        # Before it is awake nobody may be sent to it.
        yield Step(Act.DRAIN if owner.marks.serves else Act.WAKE, owner)
    elif owner.state is State.AWAKE and (not owner.marks.serves or owner.marks.next_s is not None):
        yield Step(Act.SERVE, owner)


def _aside(engine: Engine, now_s: Instant, settings: HandoverSettings) -> Act | None:
    """What brings one to sleep that is not its machine's owner."""
    marks = engine.marks
    if marks.next_s is not None or (marks.serves and engine.state is not State.SILENT):
        return Act.DRAIN
    if engine.state is not State.AWAKE:
        return None
    if marks.drains_s is None:
        return Act.SLEEP if engine.in_flight == 0 else Act.DRAIN
    drained_s = now_s - marks.drains_s
    if engine.in_flight == 0:
        return Act.SLEEP if drained_s >= settings.settle_s else None
    return Act.ABORT if drained_s >= settings.drain_s else None
