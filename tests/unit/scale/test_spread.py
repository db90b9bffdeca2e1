from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.scale.spread import Spread


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60))
def test_it_is_the_mean_of_what_each_span_says(values: list[float]) -> None:
    spread = Spread((5, 20))
    found = [spread.add(value) for value in values][-1]
    spans = [np.array(values[-span:]) for span in (5, 20)]
    assert found[0] == pytest.approx(np.mean([span.mean() for span in spans]), abs=1e-6)
    assert found[1] == pytest.approx(np.mean([span.std() for span in spans]), abs=1e-3)


def test_a_burst_is_told_sooner_by_the_short_span_and_remembered_by_the_long_one() -> None:
    spread = Spread((10, 100))
    quiet = [spread.add(1.0) for _ in range(100)][-1]
    burst = [spread.add(9.0) for _ in range(5)][-1]
    later = [spread.add(1.0) for _ in range(50)][-1]
    assert quiet == (1.0, 0.0)
    assert burst[1] > 2.5 > later[1] > 0.5
