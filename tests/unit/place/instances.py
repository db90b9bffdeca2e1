"""Small random placement instances as a Hypothesis strategy: pools, a quota above them, two resources, budgets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dure.place.instance import Instance, instance

NEEDS = np.array([(0, 0), (1, 0), (2, 1), (3, 2), (0, 1)], np.int32)


@st.composite
def instances(draw: st.DrawFn, *, most_jobs: int = 6, budgets: bool = True) -> Instance:
    pools, hours = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    jobs = draw(st.integers(1, most_jobs))
    first, option, cost = [0], [], []
    for _ in range(jobs):
        length, need = draw(st.integers(1, hours)), draw(st.integers(1, 4))
        quota = draw(st.sampled_from((-1, pools)))
        for row in range(pools):
            for start in range(hours - length + 1):
                if draw(st.booleans()):
                    option.append((row, quota, start, length, need))
                    cost.append(draw(st.integers(1, 50)))
        first.append(len(cost))
    rows = pools + 1
    capacity = np.array(draw(st.lists(st.integers(0, 4), min_size=2 * rows, max_size=2 * rows)), np.int32)
    ledger = np.array([draw(st.integers(-1, 0)) if budgets else -1 for _ in range(jobs)], np.int32)
    return instance(
        np.array(first),
        np.array(option, np.int32).reshape(-1, 5),
        np.array(cost, np.float64),
        np.array([draw(st.sampled_from((20.0, 200.0))) for _ in range(jobs)]),
        NEEDS,
        np.broadcast_to(capacity.reshape(rows, 1, 2), (rows, hours, 2)).copy(),
        ledger,
        np.stack([np.array(cost, np.float64), np.ones(len(cost))], axis=1).reshape(-1, 2),
        np.array([[draw(st.integers(0, 120)), 3.0]]),
    )


def crowd(seed: int, jobs: int = 10) -> Instance:
    """Jobs of one to three hours that want the same hours of two pools, half of them under one quota and one budget.

    All figures are whole numbers, so that sums do not depend on their order. The fourth job has no option at all, and
    not everybody is dearer to leave out than to place.
    """
    chance = np.random.default_rng(seed)
    first, option, cost = [0], [], []
    for job in range(jobs):
        length, need = int(chance.integers(1, 4)), int(chance.integers(1, 5))
        for row in range(2):
            for start in range(0 if job == 3 else 6 - length + 1):
                option.append((row, 2 if job % 2 else -1, start, length, need))
                cost.append(10 * length + 5 * start + 7 * row + int(chance.integers(0, 9)))
        first.append(len(cost))
    capacity = np.array([chance.integers(2, 5, (6, 2)), chance.integers(2, 5, (6, 2)), np.full((6, 2), 5)])
    hold = chance.choice([30.0, 120.0], jobs)
    ledger = np.where(np.arange(jobs) % 3 == 0, 0, -1)
    drain = np.stack([np.array(cost, np.float64), chance.integers(0, 4, len(cost))], axis=1)
    return instance(
        np.array(first), np.array(option, np.int32), np.array(cost, np.float64), hold, NEEDS,
        capacity.astype(np.int32), ledger.astype(np.int32), drain, np.array([[90.0, 6.0]]),
    )  # fmt: skip
