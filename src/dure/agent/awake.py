"""Keeps engines that share machines by sleeping in turn: who is awake on which node, and how many nodes there are.

Turned by `dure scale replicas` for a `share` with `asleep`. The policy that divides machines is that of `agent.warm`;
`scale.awake` says the next step of every hand-over, and here they are done: marks are written on pods, engines are
put to sleep and woken. Between two turns `tend` goes on with what is under way. Nothing of it is kept here: after a
restart hand-overs go on from marks and engines. Nodes follow the replicas of the Deployments, of which each has one
pod on every node: those that wait make the cluster's autoscaler boot one, and only nodes on which all sleep go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from msgspec.structs import replace

from dure.agent.warm import Divider, Shared
from dure.model.errors import DureError, Temporary
from dure.model.pulse import Pulse, Rest
from dure.model.units import Instant, Seconds
from dure.ports import EnginePort
from dure.scale.awake import (
    Act,
    Engine,
    EnginePod,
    HandoverSettings,
    Machine,
    Marks,
    State,
    Step,
    machines_of,
    marked,
    owned,
    sized,
    state_of,
    steps,
)
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Share
from dure.scale.warm import Machines

LANES = 8
WORDS = {
    Act.CHOOSE: "is next",
    Act.DRAIN: "gets no more requests",
    Act.SLEEP: "goes to sleep",
    Act.ABORT: "goes to sleep with requests inside, which did not end in time",
    Act.WAKE: "wakes up",
    Act.SERVE: "serves",
    Act.GIVE_UP: "did not come to serve and is left alone for a while",
}


class Levers(Protocol):
    """What can be seen of Deployments and their pods, and done to them."""

    def fetch(self, name: str) -> Held: ...

    def scale(self, name: str, replicas: int) -> None: ...

    def fetch_engines(self, name: str) -> tuple[EnginePod, ...]:
        """Pods that are on a node and not on their way out."""
        ...

    def write_marks(self, pod: str, marks: Marks) -> None:
        """Fine if the pod is gone."""
        ...


class AwakeKeeper:
    """`pulse` reads what a service shows now; None when nothing answered, and then nobody's share is changed."""

    def __init__(
        self,
        share: Share,
        services: Mapping[str, Scaled],
        levers: Levers,
        engines: EnginePort,
        pulse: Callable[[str, Scaled], Pulse | None],
        step_s: Seconds = 15.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._share, self._services, self._levers, self._engines, self._tell = share, services, levers, engines, tell
        self._least = {name: one.min for name, one in services.items()}
        self._divider = Divider(share, services, pulse, step_s)
        self._settings = HandoverSettings(share.drain_s)
        self._wanted: Mapping[str, int] | None = None
        self._said: dict[str, str] = {}

    def turn(self, now_s: Instant, *, apply: bool = True) -> Shared | None:
        """Divide the machines anew and begin with what that asks for; None while nothing could be divided."""
        try:
            machines = self._look(now_s)
            held = {name: self._levers.fetch(name) for name in self._services}
            has = owned(machines)
            before = {name: has[name] for name in self._services}
            division = self._divider.divide(now_s, before, _counted(machines, held))
            if division is None:
                self._go_on(machines, now_s, apply)
                return None
            self._wanted = dict(zip(held, division.replicas, strict=True))
            there = max(one.replicas for one in held.values())
            after, going = sized(machines, there, max(division.machines, sum(division.replicas)))
            if apply:
                self._size(machines, held, {one.node for one in going}, after)
            self._go_on([one for one in machines if one not in going], now_s, apply)
            return Shared({name: (before[name], count) for name, count in self._wanted.items()}, (there, after))
        except DureError as error:
            return Shared({}, (0, 0), str(error))

    def tend(self, now_s: Instant) -> bool:
        """Go on with what is under way; whether anything is. What cannot be seen now is left to the next turn."""
        try:
            return self._go_on(self._look(now_s), now_s, apply=True)
        except DureError:
            return False

    def _look(self, now_s: Instant) -> tuple[Machine, ...]:
        pods = [pod for name in self._services for pod in self._levers.fetch_engines(name)]
        with ThreadPoolExecutor(LANES, "engine-lane") as lanes:
            rests = list(lanes.map(self._rest, pods))
        found = []
        for pod, rest in zip(pods, rests, strict=True):
            if isinstance(rest, Rest):
                found.append(Engine(pod, state_of(pod, rest, now_s, self._share.boot), rest.in_flight))
                continue
            found.append(Engine(pod, state_of(pod, None, now_s, self._share.boot)))
            # While it starts, silence is no news.
            if not isinstance(rest, Temporary) or now_s - pod.born_s > self._share.boot:
                self._say(pod, f"is not counted: {rest}")
        return machines_of(found, self._services)

    def _rest(self, pod: EnginePod) -> Rest | DureError:
        try:
            return self._engines.fetch_rest(pod.url)
        except DureError as error:
            return error

    def _go_on(self, machines: Sequence[Machine], now_s: Instant, apply: bool) -> bool:
        """Before anything was divided, everybody keeps what it has or what is on its way to it."""
        wanted = self._wanted if self._wanted is not None else owned(machines)
        found = steps(machines, {name: wanted[name] for name in self._services}, self._least, now_s, self._settings)
        if apply and found:
            with ThreadPoolExecutor(LANES, "engine-lane") as lanes:
                list(lanes.map(lambda step: self._act(step, now_s), found))
        return bool(found) or any(_moves(one) for one in machines)

    def _act(self, step: Step, now_s: Instant) -> None:
        """A failure is told and changes nothing: the next look finds what is left to do."""
        pod = step.engine.pod
        try:
            match step.act:
                case Act.SLEEP | Act.ABORT:
                    self._engines.sleep(pod.url, abort=step.act is Act.ABORT)
                case Act.WAKE:
                    self._wake(step, now_s)
                case Act.CHOOSE | Act.DRAIN | Act.SERVE | Act.GIVE_UP:
                    self._levers.write_marks(pod.name, marked(step, now_s))
            self._say(pod, WORDS[step.act])
        except DureError as error:
            self._say(pod, f"cannot {step.act}: {error}")

    def _say(self, pod: EnginePod, words: str) -> None:
        """Once, however often it is tried again."""
        if self._said.get(pod.name) != words:
            self._said[pod.name] = words
            self._tell(f"{pod.service}: {pod.name} on {pod.node} {words}")

    def _wake(self, step: Step, now_s: Instant) -> None:
        """One that refuses is given up at once; one that does not answer may still be on its way."""
        try:
            self._engines.wake(step.engine.pod.url)
        except Temporary:
            raise
        except DureError:
            self._levers.write_marks(step.engine.pod.name, marked(Step(Act.GIVE_UP, step.engine), now_s))
            raise

    def _size(self, machines: Sequence[Machine], held: Mapping[str, Held], going: set[str], after: int) -> None:
        """Pods of every service for so many machines, and marks on those that go."""
        for one in machines:
            for engine in one.engines:
                if engine.marks.goes != (one.node in going):
                    self._levers.write_marks(engine.pod.name, replace(engine.marks, goes=one.node in going))
        before = max(each.replicas for each in held.values())
        for name, each in held.items():
            if each.replicas != after:
                self._levers.scale(name, after)
        if before != after:
            self._tell(f"shared machines: {before} -> {after}, each with an engine of every service")


def _counted(machines: Sequence[Machine], held: Mapping[str, Held]) -> Machines:
    """Without an owner: those that could be given now, those on which an engine starts or no pod is yet, those where
    one has still to go to sleep."""
    unowned = [one for one in machines if one.owner is None and not one.goes]
    free = sum(one.known and one.idle for one in unowned)
    busy = sum(one.known and not one.idle for one in unowned)
    starting = sum(not one.known for one in unowned)
    coming = max(max(one.replicas for one in held.values()) - len(machines), 0)
    return Machines(free, starting + coming, busy)


def _moves(machine: Machine) -> bool:
    """A hand-over is under way, or an engine has yet to go to sleep."""
    owner = machine.owner
    awake = [one for one in machine.engines if one.state is State.AWAKE and one is not owner]
    return bool(awake) or (owner is not None and owner.marks.next_s is not None)
