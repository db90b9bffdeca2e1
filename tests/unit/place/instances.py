"""Small random placement instances as a Hypothesis strategy."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from dure.place.instance import Instance, instance


@st.composite
def instances(draw: st.DrawFn, *, most_jobs: int = 6, budgets: bool = True) -> Instance:
    rows, hours = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    jobs = draw(st.integers(1, most_jobs))
    first, option, cost = [0], [], []
    for _ in range(jobs):
        length, need = draw(st.integers(1, hours)), draw(st.integers(1, 3))
        for row in range(rows):
            for start in range(hours - length + 1):
                if draw(st.booleans()):
                    option.append((row, -1, start, length, need))
                    cost.append(draw(st.integers(1, 50)))
        first.append(len(cost))
    capacity = np.array(draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows)), np.int32)
    ledger = np.array([draw(st.integers(-1, 0)) if budgets else -1 for _ in range(jobs)], np.int32)
    return instance(
        np.array(first),
        np.array(option, np.int32).reshape(-1, 5),
        np.array(cost, np.float64),
        np.full(jobs, 200.0),
        np.arange(4, dtype=np.int32).reshape(-1, 1),
        np.repeat(capacity, hours).reshape(rows, hours, 1),
        ledger,
        np.stack([np.array(cost, np.float64), np.ones(len(cost))], axis=1).reshape(-1, 2),
        np.array([[draw(st.integers(0, 120)), 3.0]]),
    )
