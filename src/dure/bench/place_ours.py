"""Ours in `bench place`: every cycle plans all who wait and all who have just come together, as the plane does.

The same `agreed` decides, under the default policy's charge on waiting. One who waits keeps the start he means to
take until a later cycle finds a better one. One for whom no start in time is left stays behind all who can still be
in time (`place_late`) and is asked again in every cycle until it runs.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dure.bench.demand import assembled, running_sum
from dure.bench.place_late import fill
from dure.bench.replay import SLOTS_PER_HOUR, Fleet, Jobs, Outcome, outcome
from dure.place.agree import agreed
from dure.place.instance import Bools, Floats, Instance, Longs, alone
from dure.place.settings import PlaceSettings

HOLD_FACTOR = 20.0
SLOTS_PER_DAY = 24 * SLOTS_PER_HOUR


def jointly(jobs: Jobs, fleet: Fleet, usd_per_gram: float, settings: PlaceSettings, seed: int) -> Outcome:
    """Region and start together, by price + carbon price; planned anew whenever somebody comes."""
    return Planner(jobs, fleet, usd_per_gram, settings, seed).run()


class Planner:
    """One replay; `place_moves` asks those who run as well."""

    def __init__(self, jobs: Jobs, fleet: Fleet, usd_per_gram: float, settings: PlaceSettings, seed: int) -> None:
        self.jobs, self.fleet, self.settings, self.seed = jobs, fleet, settings, seed
        # Ties in price go to the greener slot: a gram always weighs something.
        steer = fleet.price + max(usd_per_gram, 1e-9) * fleet.grams
        self.running, self.money = running_sum(steer), running_sum(fleet.price)
        self.dearest = float(steer.max())
        # Prices are known to all policies here, so there is no doubt in forecasts to charge for.
        self.charge_per_slot = settings.wait_charge_per_day / SLOTS_PER_DAY
        self.free = np.full(fleet.price.shape, fleet.devices, np.int32)
        self.region = np.full(len(jobs.arrival), -1, np.int64)
        self.start = np.full(len(jobs.arrival), -1, np.int64)

    def run(self) -> Outcome:
        slots, first = np.unique(self.jobs.arrival, return_index=True)
        waiting: list[int] = []
        looked_h = -1
        for slot, come, until in zip(slots.tolist(), first, [*first[1:], len(self.jobs.arrival)], strict=True):
            asleep = np.array([j for j in waiting if self.start[j] > slot], np.int64)
            come_now = np.arange(come, until)
            waiting = [*asleep, *come_now]
            if slot // SLOTS_PER_HOUR != looked_h or not self._wishes(slot, come_now, asleep):
                self._plan(slot, np.array(waiting, np.int64))
                looked_h = slot // SLOTS_PER_HOUR
        return outcome(self.jobs, self.fleet, self.region, self.start)

    def _wishes(self, slot: int, new: Longs, asleep: Longs) -> bool:
        """Give each new one the cheapest that it could have if nobody waited, if that goes with all plans."""
        for j in asleep:
            self._book(j, -1)
        inst, _ = self._instance(slot, new)
        for j in asleep:
            self._book(j, 1)
        cost = np.where(alone(inst), inst.cost, np.inf)
        booked: list[int] = []
        for job, j in enumerate(new):
            best = int(inst.first[job] + cost[inst.first[job] : inst.first[job + 1]].argmin())
            self.region[j], self.start[j] = inst.option[best, 0], inst.option[best, 2] + slot
            room = self.free[self.region[j], self.start[j] : self.start[j] + self.jobs.length[j]]
            if cost[best] == np.inf or room.min() < self.jobs.width[j]:
                for other in booked:
                    self._book(other, -1)
                self.start[new] = -1
                return False
            self._book(j, 1)
            booked.append(j)
        return True

    def _plan(self, slot: int, waiting: Longs) -> None:
        """Plan all anew. Who holds a start in time is let in first, then the others as they came."""
        for j in waiting[self.start[waiting] >= 0]:
            self._book(j, -1)
        hopeless = self.jobs.latest[waiting] < slot
        asked = waiting[~hopeless]
        asked = asked[np.argsort(~self._in_time(asked), kind="stable")]
        late = np.concatenate((waiting[hopeless], self._decide(slot, asked)))
        self.region[late], self.start[late] = fill(
            self.free, self.running, slot, self.jobs, late, self.settings.late_hour_factor
        )

    def _decide(self, slot: int, asked: Longs) -> Longs:
        """Book what each of `asked` gets; those who get nothing in time."""
        inst, meant = self._instance(slot, asked)
        solver = self.settings.solver(inst.jobs, inst.options)
        found = agreed(inst, np.arange(inst.jobs), solver, self.seed, meant)
        self._take(slot, asked, inst, found)
        return np.asarray(asked[found < 0])

    def _take(self, slot: int, asked: Longs, inst: Instance, found: Longs) -> None:
        placed, option = asked[found >= 0], inst.option[found[found >= 0]]
        self.region[placed], self.start[placed] = option[:, 0], option[:, 2] + slot
        for j in placed:
            self._book(j, 1)

    def _in_time(self, asked: Longs) -> Bools:
        return np.asarray((self.start[asked] >= 0) & (self.start[asked] <= self.jobs.latest[asked]))

    def _book(self, j: int, sign: int) -> None:
        self.free[self.region[j], self.start[j] : self.start[j] + self.jobs.length[j]] -= sign * self.jobs.width[j]

    def _instance(self, slot: int, moving: Longs) -> tuple[Instance, Longs]:
        """All regions and all starts from now to the latest of each, and the option that each meant to take."""
        jobs = self.jobs
        length, width, slack = jobs.length[moving], jobs.width[moving], jobs.latest[moving] - slot
        last = int((slack + length).max()) + 1
        capacity = np.ascontiguousarray(self.free[:, slot : slot + last, None])
        hold = (HOLD_FACTOR * self.dearest * width * length).astype(np.float64)
        made = assembled(
            np.zeros_like(slack), length, width, slack, self._ahead(self.running, slot, last), capacity, hold
        )
        charged = made.cost + self._charge(made, self._ahead(self.money, slot, last))
        at = made.first[:-1] + self.region[moving] * (slack + 1) + self.start[moving] - slot
        meant = np.where(self._in_time(moving), at, -1)
        return msgspec.structs.replace(made, cost=charged), meant

    def _ahead(self, running: Floats, slot: int, last: int) -> Floats:
        return running[:, slot : slot + last + 1] - running[:, slot : slot + 1]

    def _charge(self, made: Instance, money: Floats) -> Floats:
        """What waiting until each option's start counts for: a share of its price for each day."""
        row, start, length, width = (made.option[:, column] for column in (0, 2, 3, 4))
        paid = width * (money[row, start + length] - money[row, start])
        return np.asarray(self.charge_per_slot * start * paid)
