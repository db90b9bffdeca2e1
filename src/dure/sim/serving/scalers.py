"""Everything that can hold the replica lever in the simulator, behind one call: reading in, replica count out.

HPA and KEDA run Dure's exact mirrors of their rules every 15 s on a named signal; the oracle knows every arrival;
Dure's policy runs every interval. `run` calls them; nobody sees more than monitoring would show, except the oracle.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dure.scale.demand import Seen, WorkModel
from dure.scale.hpa import engine as hpa
from dure.scale.hpa.normalize import HpaState
from dure.scale.hpa.observe import Pod, Sight, Total
from dure.scale.hpa.spec import Behavior, External, HpaSpec, Rules
from dure.scale.keda import engine as keda
from dure.scale.keda.spec import ScaledObject, Trigger
from dure.scale.serving import ServingPolicy, ServingSettings
from dure.sim.serving.service import Engine, Reading, Requests

SYNC_S = 15.0
SIGNALS = ("utilization", "cache", "running", "inflight", "waiting", "rate")
AVERAGED = ("utilization", "cache")


class Scaler(Protocol):
    def decide(self, reading: Reading) -> int: ...


class Signals:
    """The last half minute of monitoring, as a threshold policy would query it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.window: list[Reading] = []

    def value(self, reading: Reading) -> float:
        self.window = [*self.window, reading][-6:]
        match self.name:
            case "utilization":
                return float(np.mean([r.utilization for r in self.window]))
            case "cache":
                return reading.cache
            case "running":
                return float(reading.running)
            case "inflight":
                return float(reading.running + reading.waiting)
            case "waiting":
                return float(reading.waiting)
            case _:
                return float(np.mean([r.arrivals / r.interval_s for r in self.window]))


class HpaScaler:
    """A HorizontalPodAutoscaler on one external metric; averages use a Value target, sums an average per pod."""

    def __init__(
        self, signal: str, target: float, most: int, window_s: int | None = None, down_at: float | None = None
    ) -> None:
        self.signals = Signals(signal)
        milli = int(target * 1000)
        metric = External(signal, value=milli) if signal in AVERAGED else External(signal, average_value=milli)
        behavior = None
        if window_s is not None:
            tolerance = None if down_at is None else 1.0 - down_at / target
            behavior = Behavior(down=Rules(window_s=window_s, tolerance=tolerance))
        self.spec = HpaSpec(max_replicas=most, metrics=(metric,), behavior=behavior)
        self.state = HpaState()
        self.next_s = 0.0

    def decide(self, reading: Reading) -> int:
        value = self.signals.value(reading)
        if reading.now_s < self.next_s:
            return reading.target
        self.next_s = reading.now_s + SYNC_S
        pods = tuple(Pod(str(index)) for index in range(reading.ready))
        sight = Sight(reading.now_s, reading.target, reading.target, (Total((int(value * 1000),)),), pods)
        outcome = hpa.sync(self.spec, self.state, sight)
        self.state = outcome.state
        return outcome.replicas


class KedaScaler:
    """A ScaledObject with one Prometheus trigger and KEDA's defaults."""

    def __init__(self, signal: str, target: float, most: int) -> None:
        self.signals = Signals(signal)
        kind = "Value" if signal in AVERAGED else "AverageValue"
        trigger = Trigger(signal, target, metric_type="Value" if kind == "Value" else "AverageValue")
        self.scaled = ScaledObject((trigger,), min_replicas=1, max_replicas=most)
        self.state = keda.KedaState()
        self.next_s = 0.0

    def decide(self, reading: Reading) -> int:
        value = self.signals.value(reading)
        if reading.now_s < self.next_s:
            return reading.target
        self.next_s = reading.now_s + SYNC_S
        sight = keda.KedaSight(reading.now_s, reading.target, reading.target, reading.ready, (value,))
        step = keda.tick(self.scaled, self.state, sight)
        self.state = step.state
        return step.replicas


class OracleScaler:
    """Knows all arrivals: keeps exactly what the next boot time will need at the given load."""

    def __init__(self, requests: Requests, engine: Engine, boot_s: float, load: float, step_s: float = 5.0) -> None:
        work = engine.prefill_s * requests.context + engine.decode_s * requests.output + engine.request_s
        count = int(requests.horizon_s / step_s) + 1
        index = np.minimum((requests.arrival_s / step_s).astype(np.int64), count - 1)
        arriving = np.bincount(index, weights=work, minlength=count) / step_s
        smooth = np.convolve(arriving, np.full(2, 0.5), "full")[1 : count + 1]
        self.plan = _running_max(np.ceil(smooth / load), round(boot_s / step_s) + 1)
        self.step_s = step_s

    def decide(self, reading: Reading) -> int:
        return max(1, int(self.plan[min(int(reading.now_s / self.step_s), len(self.plan) - 1)]))


class DureScaler:
    """Dure's policy on what monitoring shows."""

    def __init__(self, settings: ServingSettings, work: WorkModel, mean_output: float) -> None:
        self.policy = ServingPolicy(settings, work, mean_output)

    def decide(self, reading: Reading) -> int:
        return self.policy.step(seen_of(reading)).replicas


def seen_of(reading: Reading) -> Seen:
    """What Dure's policies look at, of what monitoring shows."""
    return Seen(
        reading.arrivals,
        reading.arrived_context,
        reading.waiting,
        reading.waiting_tokens,
        reading.finished,
        reading.finished_output,
        reading.target,
    )


def _running_max(series: NDArray[np.float64], ahead: int) -> NDArray[np.float64]:
    padded = np.concatenate([series, np.full(ahead, series[-1])])
    highest: NDArray[np.float64] = np.lib.stride_tricks.sliding_window_view(padded, ahead + 1).max(axis=1)
    return highest
