"""The tuning guide, followed on recorded data: start cautious, look at the signals, propose, verify, compare.

Called by `dure scale tune`. Plays the recording with the cautious thresholds (80/20) while it records every signal,
ranks the signals by how well they follow load, plays the best ones over their thresholds and Dure's policy over its
margins with what tokens were found to take of a replica, and keeps the cheapest setting that stays within the allowed
misses.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.scale.demand import WorkModel
from dure.scale.presets import CAUTIOUS
from dure.scale.serving import ServingSettings
from dure.scale.signals import Fit, fitting
from dure.sim.serving.profile import capacity, early, weights
from dure.sim.serving.run import play
from dure.sim.serving.scalers import DureScaler, HpaScaler, KedaScaler, Scaler
from dure.sim.serving.service import Engine, Outcome, Promise, Reading, Requests

CANDIDATES = {
    "utilization": (0.5, 0.65, 0.8),
    "cache": (0.1, 0.2, 0.3),
    "inflight": (4.0, 8.0, 12.0),
    "rate": (1.0, 1.4, 1.8),
}


class Trial(msgspec.Struct, frozen=True):
    """One setting and what it did in simulation."""

    policy: str
    signal: str
    setting: float
    miss_rate: float
    gpu_hours: float


class Advice(msgspec.Struct, frozen=True):
    """The ranking of signals, every trial, the starting point, the proposal, and what tokens weigh in Dure's."""

    fits: tuple[Fit, ...]
    trials: tuple[Trial, ...]
    start: Trial
    proposal: Trial | None
    work: WorkModel


class _Recorder:
    """A scaler that also writes down what every signal said."""

    def __init__(self, inner: Scaler, engine: Engine, mean_output: float) -> None:
        self.inner, self.engine, self.mean_output = inner, engine, mean_output
        self.load: list[float] = []
        self.rows: dict[str, list[float]] = {name: [] for name in (*CANDIDATES, "waiting")}

    def decide(self, reading: Reading) -> int:
        if reading.ready:
            each = self.engine.decode_s * self.mean_output + self.engine.request_s
            work = self.engine.prefill_s * reading.arrived_context + each * reading.arrivals
            self.load.append(work / reading.interval_s / reading.ready)
            self.rows["utilization"].append(reading.utilization)
            self.rows["cache"].append(reading.cache)
            self.rows["inflight"].append((reading.running + reading.waiting) / reading.ready)
            self.rows["waiting"].append(reading.waiting / reading.ready)
            self.rows["rate"].append(reading.arrivals / reading.interval_s / reading.ready)
        return self.inner.decide(reading)


def tune(requests: Requests, boot_s: float, allowed: float, engine: Engine, promise: Promise, most: int) -> Advice:
    """Follow the guide. `allowed` is the share of requests that may miss."""
    warm_up_s = min(1800.0, requests.horizon_s / 4)

    def trial(policy: str, signal: str, setting: float, scaler: Scaler) -> Trial:
        outcome: Outcome = play(requests, scaler, boot_s, engine, promise, warm_up_s=warm_up_s, most=most)
        return Trial(policy, signal, setting, outcome.miss_rate, outcome.gpu_hours)

    cautious = HpaScaler("utilization", CAUTIOUS.up_at / 100.0, most, CAUTIOUS.window_s, CAUTIOUS.down_at / 100.0)
    known = early(requests, warm_up_s)
    load, work = capacity(known, engine, promise), weights(known, engine, promise)
    recorder = _Recorder(cautious, engine, float(requests.output.mean()))
    start = trial("hpa", "utilization", CAUTIOUS.up_at / 100.0, recorder)
    fits = fitting(_smooth(recorder.load), {name: _smooth(row) for name, row in recorder.rows.items()}, load)
    best = [fit.signal for fit in fits if fit.signal in CANDIDATES][:2]
    trials = [start]
    for signal in best:
        for setting in CANDIDATES[signal]:
            averaged = signal in ("utilization", "cache")
            scaler: Scaler = HpaScaler(signal, setting, most) if averaged else KedaScaler(signal, setting, most)
            trials.append(trial("hpa" if averaged else "keda", signal, setting, scaler))
    for safety in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0):
        settings = ServingSettings(boot_s, safety=safety, max_replicas=most)
        trials.append(trial("dure", "work", safety, DureScaler(settings, work, 200.0)))
    good = [found for found in trials if found.miss_rate <= allowed]
    proposal = min(good, key=lambda found: (found.gpu_hours, found.policy, found.setting), default=None)
    return Advice(fits, tuple(trials), start, proposal, work)


def _smooth(values: list[float]) -> NDArray[np.float64]:
    """Half-minute means: what a scaler would look at."""
    array = np.array(values)
    usable = len(array) // 6 * 6
    means: NDArray[np.float64] = array[:usable].reshape(-1, 6).mean(axis=1)
    return means
