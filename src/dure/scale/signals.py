"""Which metrics tell how loaded a service is, what they are called, and which one fits a service.

Read by `tune` and by `dure scale signals`. `fitting` decides from recorded data: a signal is good
when it rises with load as far as a replica keeps its promise and saturates late; GPU utilisation is that for
prefill-bound services, and useless for decode-bound ones, where it is near its top from a fifth of the load on. What
a signal does under overload says nothing: a scaler must have acted before.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST = 10

Unit = Literal["percent", "ratio", "MiB", "W", "MHz", "C", "count", "seconds", "per-second"]


class Signal(msgspec.Struct, frozen=True):
    """One metric: its name at the source, its unit, whether it is averaged over pods or summed."""

    name: str
    source: Literal["dcgm", "vllm", "queue", "http"]
    metric: str
    unit: Unit
    averaged: bool
    scales: bool = True
    labels: tuple[str, ...] = ()


DCGM_LABELS = ("gpu", "UUID", "device", "modelName", "Hostname", "GPU_I_PROFILE", "GPU_I_ID", "namespace", "pod")
VLLM_LABELS = ("model_name", "namespace", "pod")

SIGNALS: dict[str, Signal] = {
    signal.name: signal
    for signal in (
        Signal("utilization", "dcgm", "DCGM_FI_DEV_GPU_UTIL", "percent", True, True, DCGM_LABELS),
        Signal("memory-copy", "dcgm", "DCGM_FI_DEV_MEM_COPY_UTIL", "percent", True, True, DCGM_LABELS),
        Signal("framebuffer-used", "dcgm", "DCGM_FI_DEV_FB_USED", "MiB", True, False, DCGM_LABELS),
        Signal("framebuffer-free", "dcgm", "DCGM_FI_DEV_FB_FREE", "MiB", True, False, DCGM_LABELS),
        Signal("power", "dcgm", "DCGM_FI_DEV_POWER_USAGE", "W", True, True, DCGM_LABELS),
        Signal("sm-clock", "dcgm", "DCGM_FI_DEV_SM_CLOCK", "MHz", True, False, DCGM_LABELS),
        Signal("temperature", "dcgm", "DCGM_FI_DEV_GPU_TEMP", "C", True, False, DCGM_LABELS),
        Signal("graphics-active", "dcgm", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "ratio", True, True, DCGM_LABELS),
        Signal("waiting", "vllm", "vllm:num_requests_waiting", "count", False, True, VLLM_LABELS),
        Signal("running", "vllm", "vllm:num_requests_running", "count", False, True, VLLM_LABELS),
        Signal("cache", "vllm", "vllm:kv_cache_usage_perc", "ratio", True, True, VLLM_LABELS),
        Signal("ttft", "vllm", "vllm:time_to_first_token_seconds", "seconds", True, True, VLLM_LABELS),
        Signal("tpot", "vllm", "vllm:time_per_output_token_seconds", "seconds", True, True, VLLM_LABELS),
        Signal("queue", "queue", "queue_length", "count", False),
        Signal("rate", "http", "http_requests_total", "per-second", False),
    )
}


class Fit(msgspec.Struct, frozen=True):
    """How well a signal follows load: rank correlation, and the share of its range left above half of the load seen,
    overload left out."""

    signal: str
    follows: float
    headroom: float
    score: float
    verdict: str


def query(signal: Signal, namespace: str, deployment: str, mig_profile: str = "") -> str:
    """A PromQL query that is right for an autoscaler: exact pods, honest aggregation, MIG when asked for."""
    match = f'namespace="{namespace}",pod=~"{deployment}-[a-z0-9]+-[a-z0-9]+"'
    if mig_profile:
        match += f',GPU_I_PROFILE="{mig_profile}"'
    if signal.unit == "per-second":
        return f"sum(rate({signal.metric}{{{match}}}[1m]))"
    if signal.unit == "seconds":
        top = f"sum(rate({signal.metric}_sum{{{match}}}[1m]))"
        return f"{top} / sum(rate({signal.metric}_count{{{match}}}[1m]))"
    return f"{'avg' if signal.averaged else 'sum'}({signal.metric}{{{match}}})"


def fitting(load: Floats, recorded: dict[str, Floats], capacity: float) -> tuple[Fit, ...]:
    """Signals by how well they would steer, best first. `load` is demand per replica at the same moments, `capacity`
    what one carries within its promise."""
    within = load <= capacity
    kept = within if int(np.count_nonzero(within)) >= LEAST else np.ones(len(load), dtype=np.bool_)
    fits = [_fit(name, load[kept], values[kept]) for name, values in sorted(recorded.items())]
    return tuple(sorted(fits, key=lambda fit: (-fit.score, fit.signal)))


def _fit(name: str, load: Floats, values: Floats) -> Fit:
    if len(load) < LEAST or float(np.ptp(values)) == 0.0 or float(np.ptp(load)) == 0.0:
        return Fit(name, 0.0, 0.0, 0.0, "does not move")
    follows = float(np.corrcoef(_ranks(load), _ranks(values))[0, 1])
    order = np.argsort(load, kind="stable")
    part = max(len(load) // 10, 1)
    low, high = float(values[order[:part]].mean()), float(values[order[-part:]].mean())
    near = np.argsort(np.abs(load - (float(load.min()) + float(load.max())) / 2.0), kind="stable")[:part]
    middle = float(values[near].mean())
    headroom = (high - middle) / (high - low) if high > low else 0.0
    headroom = min(max(headroom, 0.0), 1.0)
    score = max(follows, 0.0) * min(headroom, 0.5) * 2.0
    if headroom < 0.15:
        verdict = "saturates below half load"
    else:
        verdict = "follows load" if score > 0.5 else "follows load weakly"
    return Fit(name, follows, headroom, score, verdict)


def _ranks(values: Floats) -> Floats:
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values), dtype=np.float64)
    return ranks
