"""Small random placement instances as a Hypothesis strategy: pools, a quota above them, two resources, budgets."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dure.place.instance import Instance, instance

NEEDS = np.array([(0, 0), (1, 0), (2, 1), (3, 2)], np.int32)


@st.composite
def instances(draw: st.DrawFn, *, most_jobs: int = 6, budgets: bool = True) -> Instance:
    pools, hours = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    jobs = draw(st.integers(1, most_jobs))
    first, option, cost = [0], [], []
    for _ in range(jobs):
        length, need = draw(st.integers(1, hours)), draw(st.integers(1, 3))
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
