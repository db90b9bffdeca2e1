"""Ruin and recreate written down for reading: the twin that the compiled search has to follow step by step.

No linked lists, no running floor: who stands where is a list for each row and hour, costs are added up anew. It
throws the same dice in the same order, so that the same seed has to end in the same plan.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from dure.place.instance import HELD, Floats, Instance, Longs
from dure.place.plain import plain_settle
from dure.place.solver import Search


class Dice:
    def __init__(self, seed: int) -> None:
        self.state = (seed * 2654435761 + 97) % 2**32
        self.roll()

    def roll(self) -> int:
        """A number of 24 bits."""
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 8

    def heads(self) -> bool:
        """What the last roll says of a coin."""
        return self.state >= 2**31


def plain_improve(inst: Instance, choice: Longs, rent: Floats, search: Search, seed: int, edges: list[int]) -> Longs:
    """`edges` cut the jobs into blocks."""
    plan = choice.tolist()
    for lo, hi in pairwise(edges):
        plan = _Block(inst, plan, rent, search, lo, hi, seed + lo).annealed()
    return plain_settle(inst, np.array(plan, np.int64))


class _Block:
    def __init__(
        self, inst: Instance, plan: list[int], rent: Floats, search: Search, lo: int, hi: int, seed: int
    ) -> None:
        self.inst, self.search, self.lo, self.hi, self.dice = inst, search, lo, hi, Dice(seed)
        self.by_cost = [self._sorted(job, inst.cost) for job in range(inst.jobs)]
        self.key = inst.cost + rent
        self.by_priced = [self._sorted(job, self.key) for job in range(inst.jobs)]
        self.free, self.left = inst.capacity.copy(), inst.left.copy()
        self.plan = [HELD] * inst.jobs
        self.standing: dict[tuple[int, int], list[int]] = {}
        for job, option in enumerate(plan):
            self._move(job, option)

    def annealed(self) -> list[int]:
        rounds = self.search.iterations_per_job * (self.hi - self.lo)
        heat = self.search.hot * self._mean_excess()
        cooling = (self.search.cold / self.search.hot) ** (64 / max(64, rounds))
        best, value, best_value = list(self.plan), 0.0, 0.0
        for turn in range(rounds):
            if turn % 64 == 63:
                heat *= cooling
            value += self._round(heat)
            if value < best_value - 1e-12 and turn > rounds / 2:
                best, best_value = list(self.plan), value
        return best if value > best_value else self.plan

    def _round(self, heat: float) -> float:
        """What the plan costs more (or less) after one try."""
        job = self._unhappy()
        if job is None:
            return 0.0
        target = self._target(job)
        out = self._ruined(job, target)
        paid = sum(self._cost(one, was) for one, was in out)
        ceiling = paid - heat * math.log((self.dice.roll() + 1) / (2**24 + 1))
        done = 0
        if self._possible(job, target):
            self._move(job, target)
            done = 1
        out[done:] = self._arranged(out[done:])
        by = self.by_priced if self.dice.roll() % 65536 < int(self.search.priced * 65536) else self.by_cost
        while done < len(out) and self._floor(out, done) <= ceiling:
            one = out[done][0]
            room = ceiling - self._floor(out, done) + self._cost(one, self.by_cost[one][0])
            self._move(one, self._cheapest(one, by[one], min(float(self.inst.hold[one]), room)))
            done += 1
        if done == len(out) and self._floor(out, done) <= ceiling:
            return self._floor(out, done) - paid
        for one, _ in out:
            self._move(one, HELD)
        for one, was in out:
            self._move(one, was)
        return 0.0

    def _unhappy(self) -> int | None:
        """Of a few of the block that do not have their cheapest option the one that lacks most under the prices."""
        asked: list[int] = []
        for _ in range(12):
            job = self.lo + self.dice.roll() % (self.hi - self.lo)
            if not self.by_cost[job] or self.plan[job] == self.by_cost[job][0]:
                continue
            if self.plan[job] == HELD:
                return job
            asked.append(job)
            if len(asked) == self.search.asked:
                break
        return max(asked, key=self._lack, default=None)

    def _lack(self, job: int) -> float:
        return float(self.key[self.plan[job]] - self.key[self.by_priced[job][0]])

    def _target(self, job: int) -> int:
        now, mine = self.plan[job], self.by_cost[job]
        better = self.by_priced[job].index(now) if now != HELD else 0
        steered = self.dice.roll() % 65536 < int(self.search.steered * 65536)
        if better and steered:
            return self.by_priced[job][min(self.dice.roll() % better, self.dice.roll() % better)]
        return mine[self.dice.roll() % (len(mine) if now == HELD else mine.index(now))]

    def _ruined(self, job: int, target: int) -> list[tuple[int, int]]:
        """The job and those that stand in the way of its target, each with the option it had."""
        out = [(job, self.plan[job])]
        self._move(job, HELD)
        row, _, start, length, need = self.inst.option[target]
        while len(out) <= self.search.eject:
            short = (self.free[row, start : start + length] < self.inst.need[need]).any(axis=1)
            victim = self._occupant(int(row), int(start + short.argmax())) if short.any() else None
            if victim is None:
                break
            out.append((victim, self.plan[victim]))
            self._move(victim, HELD)
        return out

    def _occupant(self, row: int, hour: int) -> int | None:
        seen, found = 0, None
        for start in range(hour + 1):
            for job in self.standing.get((row, start), []):
                if self.lo <= job < self.hi and start + self.inst.option[self.plan[job], 3] > hour:
                    seen += 1
                    if self.dice.roll() % seen == 0:
                        found = job
        return found

    def _arranged(self, out: list[tuple[int, int]]) -> list[tuple[int, int]]:
        for last in range(len(out) - 1, 0, -1):
            other = self.dice.roll() % (last + 1)
            out[last], out[other] = out[other], out[last]
        self.dice.roll()
        return sorted(out, key=lambda one: -self._size(one[0])) if self.dice.heads() else out

    def _size(self, job: int) -> int:
        *_, hours, need = self.inst.option[self.by_cost[job][0]]
        return int(hours * self.inst.need[need, 0])

    def _cheapest(self, job: int, by: list[int], dearest: float) -> int:
        for option in by:
            possible = self.inst.cost[option] <= dearest and self._possible(job, option)
            if possible and self.dice.roll() % 65536 >= int(self.search.blink * 65536):
                return option
        return HELD

    def _possible(self, job: int, option: int) -> bool:
        row, quota, start, length, need = self.inst.option[option]
        rows = [row, quota] if quota >= 0 else [row]
        ledger = self.inst.ledger[job]
        fits = all((self.free[one, start : start + length] >= self.inst.need[need]).all() for one in rows)
        return fits and bool(ledger < 0 or (self.left[ledger] >= self.inst.drain[option]).all())

    def _move(self, job: int, option: int) -> None:
        for at, sign in ((self.plan[job], -1), (option, 1)):
            if at == HELD:
                continue
            row, quota, start, length, need = (int(one) for one in self.inst.option[at])
            for one in (row, quota) if quota >= 0 else (row,):
                self.free[one, start : start + length] -= sign * self.inst.need[need]
            if self.inst.ledger[job] >= 0:
                self.left[self.inst.ledger[job]] -= sign * self.inst.drain[at]
            here = self.standing.setdefault((row, start), [])
            if sign > 0:
                here.insert(0, job)
            else:
                here.remove(job)
        self.plan[job] = option

    def _floor(self, out: list[tuple[int, int]], done: int) -> float:
        """What all who were taken out cost at least: those who are back, and the cheapest of the others."""
        back = sum(self._cost(one, self.plan[one]) for one, _ in out[:done])
        return back + sum(self._cost(one, self.by_cost[one][0]) for one, _ in out[done:])

    def _cost(self, job: int, option: int) -> float:
        return float(self.inst.hold[job] if option == HELD else self.inst.cost[option])

    def _mean_excess(self) -> float:
        with_options = [job for job in range(self.lo, self.hi) if self.by_cost[job]]
        excess = [self._cost(job, self.plan[job]) - self._cost(job, self.by_cost[job][0]) for job in with_options]
        return sum(max(0.0, one) for one in excess) / (self.hi - self.lo)

    def _sorted(self, job: int, key: Floats) -> list[int]:
        mine = range(int(self.inst.first[job]), int(self.inst.first[job + 1]))
        return sorted(mine, key=key.__getitem__)
