"""The cheapest plan of a handful of jobs, found and proven by search before a solver would have begun.

Called by `solve` for the exact method; HiGHS takes over where it gives up. Depth first, who would lose most by
missing his best before the others, each by rising cost. What no longer fits beside those who have their place is out
for all who come behind (forward checking; Haralick and Elliott 1980), so a plan costs at least what it has so far and
everybody's cheapest of what is left. Invariant: the answer is `start` unless another plan is cheaper.
O(nodes x options x cells): a millisecond for six jobs. Not for many: it is exponential, and `NODES` ends it.
"""

from __future__ import annotations

import numpy as np

from dure.place.exact import Proof, capacity_entries, ledger_entries
from dure.place.instance import HELD, Floats, Instance, Longs, total

# So many steps take as long as the solver.
NODES = 300
# More are not a handful: even a few steps of theirs take longer.
JOBS = 8
# Sums of the same figures in another order differ by less; what saves no more is no reason for another plan.
_SAME = 1e-9

_Offers = list[list[tuple[float, int]]]


def cheapest(inst: Instance, start: Longs) -> Proof | None:
    """The optimum with its proof, no dearer than `start`; None where it is not found soon."""
    if inst.jobs > JOBS:
        return None
    search = _Search(inst, start)
    search.go(0, search.free, search.offers, 0.0)
    if search.nodes > NODES:
        return None
    choice = np.array(search.choice, np.int64)
    cost = total(inst, choice)
    return Proof(choice, cost, cost, True)


class _Search:
    """`offers` are (cost, option) of each job by rising cost, being held included; `taken` what options draw on."""

    def __init__(self, inst: Instance, start: Longs) -> None:
        self.taken, self.free = _cells(inst)
        self.offers = _offers(inst, self._fits(self.free))
        self.order = sorted(range(inst.jobs), key=lambda job: -_regret(self.offers[job]))
        self.choice: list[int] = start.tolist()
        self.best = total(inst, start)
        self.nodes = 0
        self._now = [HELD] * inst.jobs

    def go(self, depth: int, free: Floats, offers: _Offers, paid: float) -> None:
        """Everybody before `depth` has his place: give one to the next, and go on."""
        if depth == len(self.order):
            self.best, self.choice = paid, self._now.copy()
            return
        job, behind = self.order[depth], self.order[depth + 1 :]
        least = paid + sum(offers[other][0][0] for other in behind)
        for cost, option in offers[job]:
            if least + cost >= self.best - _SAME * abs(self.best) or self.nodes > NODES:
                return
            self.nodes += 1
            self._now[job] = option
            if option == HELD or not behind:
                self.go(depth + 1, free, offers, paid + cost)
            else:
                left = free - self.taken[option]
                self.go(depth + 1, left, self._fitting(offers, behind, left), paid + cost)

    def _fitting(self, offers: _Offers, behind: list[int], free: Floats) -> _Offers:
        """What those `behind` may still choose from."""
        fits, found = self._fits(free), offers.copy()
        for job in behind:
            found[job] = [offer for offer in offers[job] if offer[1] == HELD or fits[offer[1]]]
        return found

    def _fits(self, free: Floats) -> list[bool]:
        found: list[bool] = np.logical_and.reduce(self.taken <= free, axis=1).tolist()
        return found


def _cells(inst: Instance) -> tuple[Floats, Floats]:
    """What each option takes of all that may be too little, and how much there is of it."""
    column, row, units, limit, _ = capacity_entries(inst)
    ledger_column, ledger_row, drained = ledger_entries(inst)
    taken = np.zeros((inst.options, len(limit) + inst.left.size))
    taken[column, row] = units
    taken[ledger_column, len(limit) + ledger_row] = drained
    return taken, np.concatenate((limit, inst.left.ravel()))


def _offers(inst: Instance, fits: list[bool]) -> _Offers:
    """Of each job what would fit alone and is better than being held, and being held."""
    first, cost, hold = inst.first.tolist(), inst.cost.tolist(), inst.hold.tolist()
    return [
        [*sorted((cost[one], one) for one in range(begin, end) if fits[one] and cost[one] < held), (held, HELD)]
        for begin, end, held in zip(first, first[1:], hold, strict=False)
    ]


def _regret(offers: list[tuple[float, int]]) -> float:
    return offers[1][0] - offers[0][0] if len(offers) > 1 else 0.0
