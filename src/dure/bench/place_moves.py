"""Ours with moves in `bench place`: the plane under `standAside: always`, with lengths known (`durationHigh: 1`).

`place.aside.rearranged` decides once an hour, as it does there. Who runs may stay, go on elsewhere, or stop and go on
later, there or elsewhere. An interruption costs half a checkpoint interval of work done again, the transfer of the
state and its loading: slots that are paid and taken in the next leg; another region also the transfer itself.
Threshold, limits, cooldown and the share of the slack are the policy's: nobody is asked again within
`move_cooldown_h`, and in an hour at most as many as may move, the largest rests first. Whoever could not be in time
after an interruption is not asked.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from dure.bench.demand import running_sum
from dure.bench.place_ours import Planner
from dure.bench.replay import SLOTS_PER_HOUR, Fleet, Jobs, Outcome
from dure.model.units import HOUR_S
from dure.place.aside import Standing, rearranged, with_stays
from dure.place.instance import Instance, Ints, Longs
from dure.place.settings import PlaceSettings, StandAside

SLOT_S = HOUR_S / SLOTS_PER_HOUR


class Interruption(msgspec.Struct, frozen=True):
    """What stopping and going on costs. The state is half of a device's 40 GB: weights and optimizer, no activations;
    a host of eight sends it at 5 Gbit/s; no region of these asks more than 0.1 USD for a GiB to another."""

    checkpoint_s: float = 1800.0
    load_s: float = 300.0
    state_gib: float = 20.0
    gib_per_s: float = 5.0 / 8 / 8.59
    usd_per_gib: float = 0.1

    @property
    def slots(self) -> int:
        """Of the next leg that do no new work."""
        return math.ceil((self.checkpoint_s / 2 + self.load_s + self.state_gib / self.gib_per_s) / SLOT_S)

    @property
    def usd_per_device(self) -> float:
        """To another region."""
        return self.state_gib * self.usd_per_gib


HONEST = Interruption()


class Leg(msgspec.Struct, frozen=True):
    """A job runs in one region without a break."""

    job: int
    region: int
    begin: int
    end: int


class Moved(msgspec.Struct, frozen=True):
    outcome: Outcome
    legs: tuple[Leg, ...]


def policy_of(settings: PlaceSettings) -> PlaceSettings:
    """Of the row with moves, from that of the row without."""
    return msgspec.structs.replace(settings, stand_aside=StandAside.ALWAYS, duration_high=1.0)


def with_moves(
    jobs: Jobs, fleet: Fleet, usd_per_gram: float, settings: PlaceSettings, seed: int, cost: Interruption = HONEST
) -> Moved:
    """As `jointly`, and those who run are asked too, whenever that saves money: by a policy as of `policy_of`."""
    return _Mover(jobs, fleet, usd_per_gram, settings, seed, cost).play()


class _Mover(Planner):
    def __init__(
        self, jobs: Jobs, fleet: Fleet, usd_per_gram: float, settings: PlaceSettings, seed: int, cost: Interruption
    ) -> None:
        # Length and latest start are those of what is left of each job.
        left = Jobs(jobs.arrival, jobs.length.copy(), jobs.width, jobs.latest.copy())
        super().__init__(left, fleet, usd_per_gram, settings, seed)
        self.asked_for, self.cost, self.due = jobs, cost, jobs.latest + jobs.length
        # One that is under way makes room for the next when it works again.
        self.most = min(settings.moves_at_once * max(1, SLOTS_PER_HOUR // cost.slots), settings.moves_per_hour)
        if settings.stand_aside is StandAside.NEVER:
            self.most = 0
        self.cooldown = round(settings.move_cooldown_h * SLOTS_PER_HOUR)
        count = len(jobs.arrival)
        # Where the state of each lies (-1: it has none yet), and when it last stopped.
        self.origin, self.stopped = np.full(count, -1, np.int64), np.full(count, -self.cooldown, np.int64)
        self.waiting: list[int] = []
        self.at_work: list[int] = []
        self.legs: list[Leg] = []
        self.looks = False

    def play(self) -> Moved:
        arrival, looked_h, slot = self.jobs.arrival, -1, int(self.jobs.arrival[0])
        while True:
            come = np.arange(*np.searchsorted(arrival, [slot, slot + 1]))
            self._advance(slot)
            asleep = np.array(self.waiting, np.int64)
            self.waiting += come.tolist()
            self.looks = slot // SLOTS_PER_HOUR != looked_h
            if self.looks or (len(come) and not self._wishes(slot, come, asleep)):
                self._plan(slot, np.array(self.waiting, np.int64))
                looked_h = slot // SLOTS_PER_HOUR
            ahead = arrival[np.searchsorted(arrival, slot + 1) :]
            if not (len(ahead) or self.waiting or self.at_work):
                return Moved(self._outcome(), tuple(sorted(self.legs, key=lambda leg: (leg.job, leg.begin))))
            slot = min([*ahead[:1].tolist(), (slot // SLOTS_PER_HOUR + 1) * SLOTS_PER_HOUR])

    def _advance(self, slot: int) -> None:
        """Who has begun since the last slot runs; who has ended leaves a leg behind."""
        self.at_work += [j for j in self.waiting if self.start[j] <= slot]
        self.waiting = [j for j in self.waiting if self.start[j] > slot]
        done = [j for j in self.at_work if self._end(j) <= slot]
        self.at_work = [j for j in self.at_work if self._end(j) > slot]
        self.legs += [Leg(j, int(self.region[j]), int(self.start[j]), self._end(j)) for j in done]

    def _end(self, j: int) -> int:
        return int(self.start[j] + self.jobs.length[j])

    def _decide(self, slot: int, asked: Longs) -> Longs:
        running = self._running(slot) if self.looks else np.empty(0, np.int64)
        if len(running) == 0:
            return super()._decide(slot, asked) if len(asked) else asked
        both, before = np.concatenate((asked, running)), self._stopped(slot, running)
        inst, meant = self._instance(slot, both)
        inst, stay = _with_stays(inst, len(asked), before, slot, self.free)
        # Options were put in between; those who wait stand in front of them.
        standing = Standing(stay, np.where(stay >= 0, -1, meant), np.arange(inst.jobs))
        solver = self.settings.solver(inst.jobs, inst.options)
        found = rearranged(inst, standing, self.settings.move_threshold, solver, self.seed)
        self._take(slot, asked, inst, found[: len(asked)])
        stays = found[len(asked) :] == stay[len(asked) :]
        self._go_on(running[stays], [before[k] for k in np.flatnonzero(stays)])
        self._leave(slot, running[~stays], [before[k] for k in np.flatnonzero(~stays)])
        self._take(slot, running[~stays], inst, found[len(asked) :][~stays])
        return np.asarray(asked[found[: len(asked)] < 0])

    def _running(self, slot: int) -> Longs:
        """Who is asked in this hour: those of them with the most work left who would still be in time."""
        able = [
            j
            for j in self.at_work
            if self.start[j] < slot
            and slot - self.stopped[j] >= self.cooldown
            and self._end(j) - slot > self.cost.slots
            and self._latest(slot, j) >= slot
        ]
        able.sort(key=lambda j: (-int(self.jobs.width[j]) * (self._end(j) - slot), j))
        return np.array(able[: self.most], np.int64)

    def _latest(self, slot: int, j: int) -> int:
        """By when it has to go on if it stops now. Whoever waits here has booked its start, so that is safe."""
        left = self._end(j) - slot + self.cost.slots
        return math.floor(self.settings.latest_start(slot, int(self.due[j]), left, safe=True))

    def _stopped(self, slot: int, running: Longs) -> list[_Present]:
        """Take them out of the table and ask as if they had stopped; what they were is kept beside."""
        jobs, kept = self.jobs, []
        for j in running.tolist():
            was, latest = self._present(slot, j), self._latest(slot, j)
            kept.append(was)
            self.free[was.region, slot : slot + was.rest] += was.width
            jobs.length[j] = was.rest + self.cost.slots
            jobs.latest[j] = latest
            self.origin[j], self.start[j] = was.region, -1
        return kept

    def _present(self, slot: int, j: int) -> _Present:
        region, end, width = int(self.region[j]), self._end(j), int(self.jobs.width[j])
        return _Present(
            region=region,
            start=int(self.start[j]),
            length=int(self.jobs.length[j]),
            latest=int(self.jobs.latest[j]),
            origin=int(self.origin[j]),
            rest=end - slot,
            width=width,
            stay=float(width * (self.running[region, end] - self.running[region, slot])),
        )

    def _go_on(self, running: Longs, before: list[_Present]) -> None:
        for j, was in zip(running.tolist(), before, strict=True):
            self.region[j], self.start[j], self.origin[j] = was.region, was.start, was.origin
            self.jobs.length[j], self.jobs.latest[j] = was.length, was.latest
            end = self._end(j)
            self.free[was.region, end - was.rest : end] -= was.width

    def _leave(self, slot: int, running: Longs, before: list[_Present]) -> None:
        for j, was in zip(running.tolist(), before, strict=True):
            self.legs.append(Leg(j, was.region, was.start, slot))
            self.stopped[j] = slot
            # From now on it is one of those who wait, with all of its slack.
            self.jobs.latest[j] = self.due[j] - self.jobs.length[j]
            self.at_work.remove(j)
            self.waiting.append(j)

    def _instance(self, slot: int, moving: Longs) -> tuple[Instance, Longs]:
        """With the transfer for those whose state lies in another region."""
        made, meant = super()._instance(slot, moving)
        owner = np.repeat(moving, np.diff(made.first))
        origin = self.origin[owner]
        away = (origin >= 0) & (origin != made.option[:, 0])
        traffic = np.where(away, self.cost.usd_per_device * self.jobs.width[owner], 0.0)
        return msgspec.structs.replace(made, cost=made.cost + traffic), meant

    def _outcome(self) -> Outcome:
        return outcome_of(self.asked_for, self.fleet, self.legs, self.cost)


class _Present(msgspec.Struct, frozen=True):
    """A running job as it was before it was asked; `stay` is what its rest costs where it is."""

    region: int
    start: int
    length: int
    latest: int
    origin: int
    rest: int
    width: int
    stay: float


def _with_stays(made: Instance, asked: int, running: list[_Present], slot: int, free: Ints) -> tuple[Instance, Longs]:
    """With staying as one more option of each of `running`, who stand behind the `asked`."""
    rows = np.array([(was.region, -1, 0, was.rest, was.width) for was in running], np.int32)
    cost = np.array([was.stay for was in running])
    last = max(made.hours, max(was.rest for was in running))
    reaching = msgspec.structs.replace(made, capacity=np.ascontiguousarray(free[:, slot : slot + last, None]))
    return with_stays(reaching, np.arange(asked, made.jobs), rows, cost)


def outcome_of(jobs: Jobs, fleet: Fleet, legs: list[Leg], cost: Interruption) -> Outcome:
    """What a plan of legs comes to. A leg that follows one elsewhere pays for the transfer; waiting is all time
    in which a job does no new work."""
    count = len(jobs.arrival)
    money, grams = running_sum(fleet.price), running_sum(fleet.grams)
    paid, emitted = np.zeros(count), np.zeros(count)
    start, end, region = np.full(count, -1, np.int64), np.zeros(count, np.int64), np.full(count, -1, np.int64)
    moves = pauses = 0
    for leg in sorted(legs, key=lambda one: (one.job, one.begin)):
        j, r, width = leg.job, leg.region, int(jobs.width[leg.job])
        paid[j] += width * (money[r, leg.end] - money[r, leg.begin])
        emitted[j] += width * (grams[r, leg.end] - grams[r, leg.begin])
        if start[j] < 0:
            start[j] = leg.begin
        elif region[j] == r:
            pauses += 1
        else:
            moves += 1
            paid[j] += width * cost.usd_per_device
        region[j], end[j] = r, leg.end
    late = end > jobs.latest + jobs.length
    return Outcome(
        money=float(paid.sum()),
        grams=float(emitted.sum()),
        missed=int(late.sum()),
        waited_slots=float((end - jobs.length - jobs.arrival).mean()),
        region=region, start=start, paid=paid, late=late, moves=moves, pauses=pauses,
    )  # fmt: skip
