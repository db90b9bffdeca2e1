"""Where those go in `bench place` whose deadline nobody can keep any more: into what the others leave.

Called by `place_ours` in every cycle after those who can still be in time were planned. A late hour costs what the
policy charges for it in the plane (`late_hour_factor` times the price of an hour of the run), so all together lose
least when the shortest run goes first (Smith's rule, 1956), and each takes the region and start at which price and
lateness together are least. Nobody keeps a place here: in the next cycle all who have not begun are asked again.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dure.bench.replay import Jobs, first_room
from dure.place.instance import Floats, Ints, Longs


def fill(
    free: Ints, running: Floats, slot: int, jobs: Jobs, late: Longs, late_hour_factor: float
) -> tuple[Longs, Longs]:
    """Region and start of each of `late`; what they take is booked in `free`."""
    lowest = np.diff(running, axis=1).min(axis=1)
    order = np.lexsort((late, jobs.length[late]))
    region, start = np.empty(len(late), np.int64), np.empty(len(late), np.int64)
    for at in order:
        j = late[at]
        length, width = int(jobs.length[j]), int(jobs.width[j])
        region[at], start[at] = _least(
            free, running, lowest, slot, length, width, int(jobs.latest[j]), late_hour_factor
        )
        free[region[at], start[at] : start[at] + length] -= width
    return region, start


@njit(cache=True)
def _least(free, running, lowest, slot, length, width, latest, factor):  # type: ignore[no-untyped-def]
    """The region and start with the least price + lateness; a start so late that no price makes up for it ends it."""
    best, at_region, at_start = np.inf, -1, -1
    for region in range(free.shape[0]):
        start = first_room(free, region, slot, length, width)
        while start + length < free.shape[1]:
            charged = 1.0 + factor * max(0, start - latest) / length
            if charged * lowest[region] * length >= best:
                break
            cost = charged * (running[region, start + length] - running[region, start])
            if cost < best:
                best, at_region, at_start = cost, region, start
            start = first_room(free, region, start + 1, length, width)
    return at_region, at_start
