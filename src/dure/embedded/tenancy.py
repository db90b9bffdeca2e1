"""Which devices of the fleet are shared, and what their tenants run: from the agents' reports to virtual devices.

Pure. How long a demo workload's kernels take follows from its promise and its share, as the imitated clusters answer
requests; what they look like (many small, few that fill the device) is drawn from the model's name.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping

from dure.device.config import DeviceConfig, TenantConfig
from dure.device.virtual import Load
from dure.model.accelerator import ShareMode
from dure.model.report import DeviceView, Held, Report
from dure.model.units import WHOLE_MILLI
from dure.model.workload import Workload, WorkloadType
from dure.share.promise import Promise
from dure.sim.gpu.profile import App, synthesise

SHARED = (ShareMode.MPS, ShareMode.TIMESLICE)
SEGMENTS = 12
KERNELS_PER_SEGMENT = 10
SMS = 108
SERVICE_PART = 1 / 6
"""A request alone takes this part of its latency target."""
BUSY = 0.38
"""Part of its time that a service at its mean rate has a request inside."""
BATCH_MS = 30.0
SERVICE_MS = 20.0


def shared_devices(reports: Iterable[Report]) -> dict[str, DeviceView]:
    """By `cluster/device`: those that pods share without hardware walls between them, if only one is there now."""
    return {
        f"{report.cluster}/{device.id}": device
        for report in reports
        for device in report.devices
        if device.mode in SHARED and device.held and device.healthy
    }


def tenancy(
    name: str, device: DeviceView, workloads: Mapping[str, Workload]
) -> tuple[DeviceConfig, dict[str, Load]] | None:
    """What runs there; None while none of its pods is known."""
    twice = Counter(held.workload for held in device.held)
    tenants, loads = [], {}
    for held in device.held:
        spec = workloads.get(held.workload)
        if spec is None:
            continue
        called = held.workload if twice[held.workload] == 1 else held.pod
        tenants.append(_tenant(called, spec))
        loads[called] = _load(held, spec)
    if not tenants:
        return None
    return DeviceConfig(tuple(tenants), name=name), loads


def _tenant(called: str, spec: Workload) -> TenantConfig:
    promise = Promise(latency_ms=spec.slo.latency_p95_ms, availability=spec.slo.availability)
    return TenantConfig(called, spec.model or spec.name, promise=promise, batch=spec.type is not WorkloadType.SERVING)


def _load(held: Held, spec: Workload) -> Load:
    need = min(1.0, max(0.05, held.slice.compute_milli / WHOLE_MILLI))
    if spec.type is not WorkloadType.SERVING:
        return Load(*_segments(spec.model or spec.name, BATCH_MS, need), 0.0)
    alone_ms = spec.slo.latency_p95_ms * SERVICE_PART if spec.slo.latency_p95_ms else SERVICE_MS
    return Load(*_segments(spec.model or spec.name, alone_ms, need), 1000.0 * BUSY / alone_ms)


@functools.lru_cache(maxsize=512)
def _segments(model: str, alone_ms: float, need: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Times and needs of a request's segments."""
    kernels = SEGMENTS * KERNELS_PER_SEGMENT
    profile = synthesise(App(model, alone_ms, kernels, alone_ms * (1.0 - need) + 1e-6, 0.0), SMS)
    times, needs = [], []
    turn = sum(model.encode()) % kernels
    order = [(turn + i) % kernels for i in range(kernels)]
    for at in range(0, kernels, KERNELS_PER_SEGMENT):
        own = order[at : at + KERNELS_PER_SEGMENT]
        took = sum(profile.ms[i] for i in own)
        times.append(took)
        needs.append(sum(profile.ms[i] * profile.sms[i] for i in own) / took / SMS)
    return tuple(times), tuple(needs)
