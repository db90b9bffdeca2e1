"""How many devices, and of which kind, each job gets when all could use more: goodput-aware and fair.

Each job names its options (kind, devices, seconds until it would be done with them, a restart counted where that is a
change) and a weight. Value of an option: `weight x seconds ^ -fairness`: with 1 the sum is the rate at which jobs are
finished (the shortest first, as SRPT), towards 0 everybody gets something. Solved by prices: one for each kind of
device, moved until what is chosen fits, then repaired by value per device and filled up with upgrades. Deterministic,
O(rounds x options); called by `plane.stretching` for running gangs and by `dure bench jct`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from dure.model.units import Seconds
from dure.place.instance import Floats

_ROUNDS = 60
_NOTHING = -1
# Of a job that has hardly begun, or did nothing but restart, at least this much of its time counts as work.
_LEAST_WORK = 0.05
Whole = npt.NDArray[np.int64]


class Choice(msgspec.Struct, frozen=True):
    """One way for a job to run: `devices` of `kind`, done in `seconds` from now."""

    kind: int
    devices: int
    seconds: float


class Wish(msgspec.Struct, frozen=True):
    """All ways of one job; `least` is the option that it must not fall below (-1: it may wait)."""

    choices: tuple[Choice, ...]
    weight: float = 1.0
    least: int = _NOTHING


def disturbed_s(seconds: Seconds, restart_s: Seconds, age_s: Seconds, restarts: int) -> Seconds:
    """Until a running job is done that would take `seconds` with another choice, to which it has to restart.

    One restart invites the next: they are taken to go on as often as they came while it ran, this one among them
    (the restart factor of Sia, SOSP'23), so that who was moved often or has just begun is left alone.
    """
    if restart_s <= 0:
        return seconds
    work = (age_s - restarts * restart_s) / (age_s + restart_s)
    return restart_s + seconds / max(work, _LEAST_WORK)


def shares(wishes: Sequence[Wish], capacity: Sequence[int], fairness: float = 0.5) -> tuple[int, ...]:
    """The index of each job's choice, or -1 where it gets nothing."""
    if not wishes:
        return ()
    table = _Table(wishes, capacity, fairness)
    chosen = table.repaired(table.priced())
    return tuple(int(one) for one in table.filled(chosen))


class _Table:
    def __init__(self, wishes: Sequence[Wish], capacity: Sequence[int], fairness: float) -> None:
        width = max(len(wish.choices) for wish in wishes)
        shape = (len(wishes), width)
        self.kind = np.zeros(shape, np.int64)
        self.need = np.zeros(shape, np.int64)
        self.value = np.full(shape, -np.inf)
        self.capacity = np.array(capacity, np.int64)
        self.least = [wish.least for wish in wishes]
        for job, wish in enumerate(wishes):
            for at, one in enumerate(wish.choices):
                self.kind[job, at], self.need[job, at] = one.kind, one.devices
                self.value[job, at] = wish.weight * max(one.seconds, 1.0) ** -fairness
        self.jobs = np.arange(len(wishes))

    def priced(self) -> Whole:
        """Each job's best option at the prices at which the kinds are just taken up."""
        finite = self.value[np.isfinite(self.value)]
        start = float(np.median(finite)) / max(1.0, float(self.capacity.mean())) if len(finite) else 0.0
        price = np.zeros(len(self.capacity))
        best, least_over = self._at(price), np.inf
        for turn in range(_ROUNDS):
            chosen = self._at(price)
            over = self._used(chosen) - self.capacity
            excess = float(np.maximum(over, 0).sum()) + 0.1 * float(np.maximum(-over, 0).sum())
            if excess < least_over:
                best, least_over = chosen, excess
            step = 2.0 * start / (1.0 + 0.3 * turn)
            price = np.maximum(0.0, price + step * over / np.maximum(1, self.capacity))
        return best

    def repaired(self, chosen: Whole) -> Whole:
        """Those with the least value per device step down, to a smaller option or to nothing, until all fits."""
        chosen = chosen.copy()
        while (over := self._used(chosen) - self.capacity).max() > 0:
            kind = int(over.argmax())
            on = [int(job) for job in self.jobs if chosen[job] >= 0 and self.kind[job, chosen[job]] == kind]
            job, smaller = min((self._step_down(job, chosen[job]) for job in on), key=lambda step: step[2])[:2]
            chosen[job] = smaller
        return chosen

    def _step_down(self, job: int, at: int) -> tuple[int, int, tuple[bool, float, int]]:
        """The cheapest step down of a job: which option, and what is lost for each device that it frees."""
        kind, need, value = self.kind[job, at], self.need[job, at], self.value[job, at]
        below = [
            other
            for other in range(self.kind.shape[1])
            if np.isfinite(self.value[job, other]) and self.kind[job, other] == kind and self.need[job, other] < need
        ]
        steps = [((value - self.value[job, other]) / (need - self.need[job, other]), other) for other in below]
        steps.append((value / need, _NOTHING))
        loss, other = min(steps)
        # One that holds its least goes down only when nobody else can.
        return job, other, (at == self.least[job], float(loss), job)

    def filled(self, chosen: Whole) -> Whole:
        """What is left over goes where it adds most for each device, option by option."""
        chosen = chosen.copy()
        free = self.capacity - self._used(chosen)
        while True:
            own = chosen >= 0
            at = np.maximum(chosen, 0)
            now = np.where(own, self.value[self.jobs, at], 0.0)
            held = np.where(own, self.need[self.jobs, at], 0)
            same = own[:, None] & (self.kind == self.kind[self.jobs, at][:, None])
            extra = self.need - np.where(same, held[:, None], 0)
            gain = self.value - now[:, None]
            fits = np.isfinite(self.value) & (extra <= free[self.kind]) & (gain > 1e-15)
            if not fits.any():
                return chosen
            rate = np.where(fits, gain / np.maximum(1, extra), -np.inf)
            job, option = (int(one) for one in np.unravel_index(int(rate.argmax()), rate.shape))
            if chosen[job] >= 0:
                free[self.kind[job, chosen[job]]] += self.need[job, chosen[job]]
            chosen[job] = option
            free[self.kind[job, option]] -= self.need[job, option]

    def _at(self, price: Floats) -> Whole:
        net = self.value - price[self.kind] * self.need
        best = net.argmax(axis=1)
        return np.where(net[self.jobs, best] > 0, best, _NOTHING)

    def _used(self, chosen: Whole) -> Whole:
        taken = chosen >= 0
        at = np.maximum(chosen, 0)
        used = np.zeros(len(self.capacity), np.int64)
        np.add.at(used, self.kind[self.jobs, at][taken], self.need[self.jobs, at][taken])
        return used
