"""The tuning guide on recordings: the signal that fits is found from the record, and the proposal keeps its word."""

from __future__ import annotations

import numpy as np

from dure.sim.serving.arrivals import from_rates
from dure.sim.serving.service import Engine, Promise
from dure.sim.serving.tune import Advice, tune


def advice(context: tuple[int, int], output: tuple[int, int], rate: float) -> Advice:
    rng = np.random.default_rng(2)
    rates = 1.0 + 0.6 * np.sin(np.arange(1500) / 120.0)
    recording = from_rates(rates, rng.integers(*context, 400), rng.integers(*output, 400), rate, 2)
    return tune(recording, 30.0, 0.02, Engine(), Promise(), 16)


def test_utilisation_fits_a_prefill_bound_service_and_not_a_decode_bound_one() -> None:
    prefill, decode = advice((1000, 4000), (1, 30), 6.0), advice((50, 200), (200, 500), 4.0)
    verdicts = [{fit.signal: fit.verdict for fit in found.fits}["utilization"] for found in (prefill, decode)]
    assert verdicts == ["follows load", "saturates below half load"]
    for found in (prefill, decode):
        assert found.proposal is not None
        assert found.proposal.miss_rate <= 0.02
        assert found.proposal.gpu_hours <= found.start.gpu_hours or found.start.miss_rate > 0.02
