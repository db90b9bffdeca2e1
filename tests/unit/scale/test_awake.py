"""Who is awake: one on a machine at most, on as few changes as can be, from whatever was seen."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dure.model.pulse import Rest
from dure.scale.awake import (
    Act,
    Engine,
    EnginePod,
    HandoverSettings,
    Machine,
    Marks,
    State,
    Step,
    leaving,
    machines_of,
    marked,
    owned,
    sized,
    state_of,
    steps,
)

SETTINGS = HandoverSettings(drain_s=30.0)
NAMES = ("chat", "code", "mail")
QUIET = (State.ASLEEP, State.LOST)


def engine(service: str, node: str, state: State = State.ASLEEP, in_flight: int = 0, **marks: object) -> Engine:
    pod = EnginePod(service, node, f"{service}-{node}", "", marks=Marks(**marks))  # type: ignore[arg-type]
    return Engine(pod, state, in_flight)


class World:
    """Engines as they are. A step that is done changes one of them; what is inside is worked off as time goes by."""

    def __init__(self, engines: list[Engine], services: tuple[str, ...]) -> None:
        self.engines, self.services, self.now_s = {one.pod.name: one for one in engines}, services, 1000.0
        self.acts = Counter[Act]()

    def machines(self) -> tuple[Machine, ...]:
        return machines_of(self.engines.values(), self.services)

    def steps(self, wanted: dict[str, int], least: dict[str, int]) -> tuple[Step, ...]:
        return steps(self.machines(), wanted, least, self.now_s, SETTINGS)

    def act(self, step: Step) -> None:
        name = step.engine.pod.name
        one = self.engines[name]
        self.acts[step.act] += 1
        state, inside = one.state, one.in_flight
        match step.act:
            case Act.SLEEP:
                assert inside == 0, "nothing is lost"
                state = State.ASLEEP
            case Act.ABORT:
                assert one.marks.drains_s is not None
                assert self.now_s - one.marks.drains_s >= SETTINGS.drain_s, "it had its time"
                state, inside = State.ASLEEP, 0
            case Act.WAKE:
                beside = [each for each in self.engines.values() if each.pod.node == one.pod.node and each is not one]
                assert all(each.state in QUIET for each in beside), "never two awake"
                assert not any(each.marks.serves for each in beside)
                state = State.AWAKE
            case _:
                one = replace(one, pod=replace(one.pod, marks=marked(step, self.now_s)))
        self.engines[name] = replace(one, state=state, in_flight=inside)
        self.check()

    def go_by(self, seconds: float) -> None:
        self.now_s += seconds
        for name, one in self.engines.items():
            if not one.marks.serves and one.in_flight:
                self.engines[name] = replace(one, in_flight=one.in_flight - 1)

    def check(self) -> None:
        for node in {one.pod.node for one in self.engines.values()}:
            here = [one for one in self.engines.values() if one.pod.node == node]
            assert sum(one.state is State.AWAKE for one in here) <= 1, "never two awake on one machine"
            assert sum(one.marks.serves for one in here) <= 1

    def serving(self) -> Counter[str]:
        return Counter(one.service for one in self.engines.values() if one.marks.serves and one.state is State.AWAKE)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Machines in any state that hand-overs and their interruptions leave behind."""
    services = NAMES[: draw(st.integers(2, 3))]
    found = []
    for number in range(draw(st.integers(2, 6))):
        awake = draw(st.sampled_from([None, *services]))
        upcoming = draw(st.sampled_from([None, None, *services]))
        serves = draw(st.booleans())
        for name in services:
            is_awake = name == awake
            drains_s = draw(st.sampled_from([None, 900.0, 999.5])) if is_awake and not serves else None
            found.append(
                engine(
                    name, f"n{number}", State.AWAKE if is_awake else State.ASLEEP,
                    draw(st.integers(0, 4)) if is_awake else 0,
                    serves=is_awake and serves, next_s=995.0 if name == upcoming else None, drains_s=drains_s,
                )
            )  # fmt: skip
    return World(found, services)


def divisions(world: World, rng: random.Random) -> dict[str, int]:
    """Each at least one where there is room, in all no more than machines."""
    wanted = dict.fromkeys(world.services, 0)
    for _ in range(rng.randint(len(wanted), max(len(world.machines()), len(wanted)))):
        wanted[rng.choice(world.services)] += 1
    return wanted


@given(worlds(), st.randoms(use_true_random=False))
def test_it_ends_as_wanted_whatever_is_interrupted_and_then_rests(world: World, rng: random.Random) -> None:
    wanted, least = divisions(world, rng), dict.fromkeys(world.services, 0)
    world.check()
    for turn in range(60):
        found = world.steps(wanted, least)
        for step in rng.sample(found, len(found)):
            if turn > 15 or rng.random() < 0.6:
                world.act(step)
        world.go_by(rng.choice([0.25, 1.0, 5.0]))
    assert sum(world.serving().values()) == min(sum(wanted.values()), len(world.machines()))
    if sum(wanted.values()) <= len(world.machines()):
        assert dict(+world.serving()) == {name: count for name, count in wanted.items() if count}
    assert world.steps(wanted, least) == ()


@given(worlds(), st.randoms(use_true_random=False))
def test_no_more_changes_hands_than_is_lacking(world: World, rng: random.Random) -> None:
    wanted, least = divisions(world, rng), dict.fromkeys(world.services, 0)
    room, has = len(world.machines()), owned(world.machines())
    found = world.steps(wanted, least)
    chosen = Counter(step.engine.service for step in found if step.act is Act.CHOOSE)
    if sum(wanted.values()) <= room:
        assert chosen == Counter({name: max(wanted[name] - has[name], 0) for name in wanted})
    for step in found:
        if step.act is not Act.CHOOSE:
            continue
        [machine] = [one for one in world.machines() if one.node == step.engine.pod.node]
        assert (
            machine.owner is None
            or has[machine.owner.service] > wanted[machine.owner.service]
            or (sum(wanted.values()) > room)
        )


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_engines_are_seen_does_not_matter(world: World, rng: random.Random) -> None:
    wanted = divisions(world, rng)
    mixed = rng.sample(list(world.engines.values()), len(world.engines))
    again = dict(rng.sample(list(wanted.items()), len(wanted)))
    assert steps(machines_of(mixed, world.services), again, {}, world.now_s, SETTINGS) == world.steps(wanted, {})


@given(worlds(), st.randoms(use_true_random=False))
def test_nobody_is_kept_below_its_least_while_others_have_more_than_theirs(world: World, rng: random.Random) -> None:
    """Also where more is wanted than there is."""
    least = dict.fromkeys(world.services, 1)
    wanted = {name: rng.randint(1, 6) for name in world.services}
    lowest = {name: min(world.serving()[name], 1) for name in world.services}
    for _ in range(50):
        for step in world.steps(wanted, least):
            world.act(step)
        if len(world.machines()) >= len(world.services):
            assert all(world.serving()[name] >= lowest[name] for name in world.services), "nor on the way"
        world.go_by(1.0)
    assert sum(world.serving()[name] >= 1 for name in world.services) == min(
        len(world.services), len(world.machines())
    )


@given(worlds(), st.data())
def test_a_silent_engine_is_not_touched_and_nobody_is_woken_beside_it(world: World, data: st.DataObject) -> None:
    silent = data.draw(st.sampled_from(sorted(world.engines)))
    one = world.engines[silent] = replace(world.engines[silent], state=State.SILENT)
    found = world.steps(dict.fromkeys(world.services, 2), {})
    assert all(step.act in (Act.DRAIN, Act.GIVE_UP) for step in found if step.engine.pod.name == silent)
    assert all(step.act is not Act.WAKE for step in found if step.engine.pod.node == one.pod.node)
    assert all(step.act is not Act.CHOOSE for step in found if step.engine.pod.node == one.pod.node)


def test_the_machine_with_the_least_inside_changes_hands() -> None:
    seen = [
        engine("chat", "n1", State.AWAKE, 5, serves=True), engine("code", "n1"),
        engine("chat", "n2", State.AWAKE, 1, serves=True), engine("code", "n2"),
        engine("chat", "n3", State.AWAKE, 3, serves=True), engine("code", "n3"),
    ]  # fmt: skip
    [step] = World(seen, ("chat", "code")).steps({"chat": 2, "code": 1}, {})
    assert (step.act, step.engine.pod.name) == (Act.CHOOSE, "code-n2")


def test_a_free_machine_comes_before_one_that_somebody_has() -> None:
    seen = [
        engine("chat", "n1", State.AWAKE, serves=True),
        engine("code", "n1"),
        engine("chat", "n2"),
        engine("code", "n2"),
    ]
    [step] = World(seen, ("chat", "code")).steps({"chat": 1, "code": 1}, {})
    assert step.engine.pod.name == "code-n2"


def test_a_hand_over_goes_step_by_step() -> None:
    world = World([engine("chat", "n1", State.AWAKE, 2, serves=True), engine("code", "n1")], ("chat", "code"))
    went = []
    for _ in range(10):
        for step in world.steps({"chat": 0, "code": 1}, {}):
            went.append((step.act, step.engine.service))
            world.act(step)
        world.go_by(0.5)
    assert went == [
        (Act.CHOOSE, "code"), (Act.DRAIN, "chat"), (Act.SLEEP, "chat"), (Act.WAKE, "code"), (Act.SERVE, "code"),
    ]  # fmt: skip


def test_who_is_wanted_again_serves_on_without_having_slept() -> None:
    seen = [engine("chat", "n1", State.AWAKE, 2, drains_s=999.0), engine("code", "n1", next_s=998.0)]
    world = World(seen, ("chat", "code"))
    for _ in range(6):
        for step in world.steps({"chat": 1, "code": 0}, {}):
            world.act(step)
    assert world.serving() == Counter(chat=1)
    assert world.acts[Act.SLEEP] == world.acts[Act.WAKE] == 0


def test_requests_that_do_not_end_are_ended_when_their_time_is_over() -> None:
    seen = [engine("chat", "n1", State.AWAKE, 99, drains_s=980.0), engine("code", "n1", next_s=980.0)]
    world = World(seen, ("chat", "code"))
    assert world.steps({"chat": 0, "code": 1}, {}) == ()
    world.now_s = 1010.0
    assert [step.act for step in world.steps({"chat": 0, "code": 1}, {})] == [Act.ABORT]


def test_one_that_does_not_come_to_serve_is_given_up_and_another_machine_is_taken() -> None:
    stuck = engine("code", "n1", State.SILENT, next_s=900.0)
    world = World([engine("chat", "n1"), stuck, engine("chat", "n2"), engine("code", "n2")], ("chat", "code"))
    assert world.steps({"chat": 0, "code": 1}, {}) == (Step(Act.GIVE_UP, stuck),)
    failed = engine("code", "n1", failed_s=999.0)
    world.engines[failed.pod.name] = failed
    [step] = world.steps({"chat": 0, "code": 1}, {})
    assert (step.act, step.engine.pod.name) == (Act.CHOOSE, "code-n2")
    [elsewhere] = world.steps({"chat": 1, "code": 0}, {})
    assert elsewhere.engine.pod.name == "chat-n1", "where others still can"
    world.now_s += SETTINGS.rest_s
    assert {step.engine.pod.name for step in world.steps({"chat": 0, "code": 2}, {})} == {"code-n1", "code-n2"}


def test_one_that_serves_asleep_or_lost_serves_no_more() -> None:
    for state in QUIET:
        one = engine("chat", "n1", state, serves=True)
        assert World([one, engine("code", "n1")], ("chat", "code")).steps({"chat": 0, "code": 0}, {}) == (
            Step(Act.DRAIN, one),
        )


def test_an_engine_that_has_just_started_goes_to_sleep_before_its_machine_is_given() -> None:
    fresh, starting = engine("chat", "n1", State.AWAKE), engine("code", "n1", State.SILENT)
    world = World([fresh, starting], ("chat", "code"))
    assert world.steps({"chat": 1, "code": 0}, {}) == (Step(Act.SLEEP, fresh),)
    alone = World([engine("chat", "n1")], ("chat", "code"))
    assert alone.steps({"chat": 1, "code": 0}, {}) == (), "while the other's pod is yet to come"


def test_machines_that_go_are_those_on_which_all_sleep_broken_ones_first() -> None:
    seen = [
        engine("chat", "n1", State.AWAKE, serves=True), engine("code", "n1"),
        engine("chat", "n2"), engine("code", "n2"),
        engine("chat", "n3"), engine("code", "n3", State.LOST),
        engine("chat", "n4"), engine("code", "n4", next_s=1.0),
        engine("chat", "n5", goes=True), engine("code", "n5", goes=True),
        engine("chat", "n6"), engine("code", "n6", State.SILENT),
    ]  # fmt: skip
    machines = machines_of(seen, ("chat", "code"))
    assert [one.node for one in leaving(machines, 9)] == ["n5", "n3", "n2"]
    assert [one.node for one in leaving(machines, 1)] == ["n5"]
    assert leaving(machines, -1) == ()
    chosen = steps(machines, {"chat": 3, "code": 2}, {}, 1000.0, SETTINGS)
    assert not any(step.engine.pod.node in ("n5", "n6") for step in chosen if step.act is Act.CHOOSE)


@given(worlds(), st.integers(0, 9), st.integers(0, 4))
def test_machines_go_one_look_after_they_were_marked_and_never_one_that_somebody_has(
    world: World, wanted: int, coming: int
) -> None:
    machines = world.machines()
    there = len(machines) + coming
    after, going = sized(machines, there, wanted)
    assert after >= min(wanted, len(machines)), "nothing was marked before"
    assert all(one.idle for one in going)
    if wanted >= there:
        assert (after, going) == (wanted, ())
    for one in (each for machine in going for each in machine.engines):
        world.engines[one.pod.name] = replace(one, pod=replace(one.pod, marks=replace(one.marks, goes=True)))
    again, same = sized(world.machines(), there, wanted)
    assert {one.node for one in same} == {one.node for one in going}
    assert again == (wanted if wanted >= there else max(wanted, len(machines) - len(going)))


def test_an_engine_is_lost_when_its_pod_is_not_ready_and_had_its_time() -> None:
    young, old = (
        EnginePod("chat", "n", "p", "", ready=False, born_s=950.0),
        EnginePod("chat", "n", "p", "", ready=False),
    )
    assert state_of(young, None, 1000.0, 150.0) is State.SILENT
    assert state_of(old, None, 1000.0, 150.0) is State.LOST
    assert state_of(replace(old, ready=True), None, 1000.0, 150.0) is State.SILENT
    assert state_of(old, Rest(asleep=True), 1000.0, 150.0) is State.ASLEEP
    assert state_of(young, Rest(asleep=False), 1000.0, 150.0) is State.AWAKE
