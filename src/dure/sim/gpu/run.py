"""Run tenants on the virtual GPU under one sharing system: the door to `sim.gpu` for benchmarks and devices.

`play` compiles tenants, load and system into flat arrays, lets the event loop run, and gives back latencies and
SM accounting. Same arguments, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.share.squad import SquadSettings
from dure.sim.gpu import state
from dure.sim.gpu.baselines import bless, capped, codes
from dure.sim.gpu.device import GpuSpec
from dure.sim.gpu.engine import simulate
from dure.sim.gpu.formed import Former
from dure.sim.gpu.profile import Profile, stretched, waved

PARTS = 18
"""Partitions in which shares are promised: 6 SMs each on an A100."""


FORMED = " squads"
"""Ending of the names of systems whose squads the engine of `share` forms."""


class System(msgspec.Struct, frozen=True):
    """One way of sharing: its code in the event loop and what it costs."""

    name: str
    code: int
    policy: int = 0
    caps: str = "none"
    interferes: bool = True
    squad_kernels: int = 50
    squad_mode: int = 3
    reading: int = bless.SMALLEST_PACE
    host_ms: float = 0.0067
    gap_ms: float = 0.0
    corun: int = 0
    slice_ms: float = 2.0
    best_effort_share: float = 0.05
    rank_ms: float = 0.5
    """Policies order the tenants anew after this time, and whenever a request comes or ends."""
    ahead: int = 6
    """Kernels of one tenant at the device: the running one and those queued behind it."""
    squads: SquadSettings = SquadSettings()
    """How the engine of `share` forms them, as on live devices."""


SYSTEMS = {
    system.name: system
    for system in (
        System("ISO", codes.CAPPED, caps="quota", interferes=False),
        System("TEMPORAL", codes.TEMPORAL),
        System("MIG", codes.CAPPED, caps="mig", interferes=False),
        System("GSLICE", codes.CAPPED, caps="quota"),
        System("UNBOUND", codes.UNBOUND),
        System("REEF+", codes.REEF, gap_ms=0.008),
        System("ORION", codes.ORION),
        System("BLESS-L", codes.BLESS, reading=bless.LARGEST_PACE),
        System("BLESS-R", codes.BLESS),
        System("BLESS-Q", codes.BLESS, reading=bless.NEEDED_RATE),
        System("jct", codes.RANKED, policy=codes.JCT),
        System("slo", codes.RANKED, policy=codes.SLO),
        System("hybrid", codes.RANKED, policy=codes.HYBRID),
        System("slack-guarded", codes.RANKED, policy=codes.SLACK_GUARDED),
        System("hybrid" + FORMED, codes.FORMED),
        System("slack-guarded" + FORMED, codes.FORMED),
    )
}


class Tenant(msgspec.Struct, frozen=True):
    """Who shares the device. `target_ms` 0 means: the latency its quota gives it alone."""

    profile: Profile
    quota: float
    target_ms: float = 0.0
    weight: float = 1.0


class Outcome(msgspec.Struct, frozen=True):
    """What came out: latencies (tenant x request, NaN when not finished) and SM accounting."""

    latency_ms: NDArray[np.float64]
    end_ms: float
    events: int
    squads: int
    busy: float
    """Part of the SM time in use while any request was inside."""
    bubble: float
    """Part of it idle although a waiting or running kernel could have used it."""
    trace: NDArray[np.float64]


def iso_ms(profile: Profile, quota: float, gpu: GpuSpec, drag: float = 0.02) -> float:
    """Latency alone with a share of the SMs: the promise made to a tenant."""
    share = max(1, round(quota * gpu.sms))
    scaled = (waved if gpu.waves else stretched)(np.array(profile.ms), np.array(profile.sms), share, gpu.sms)
    return float(scaled.sum()) * (1.0 + drag if share < gpu.sms else 1.0) + gpu.launch_ms


def play(
    gpu: GpuSpec,
    tenants: Sequence[Tenant],
    times: NDArray[np.float64],
    system: System,
    *,
    closed: bool = True,
    extra_slowdown: float = 0.0,
    drag: float = 0.02,
    trace_rows: int = 0,
) -> Outcome:
    """Run all requests. `times` is tenant x request: think times (closed) or arrival times, in ms."""
    g = _compile(gpu, tenants, times, system, closed, extra_slowdown, drag)
    trace = np.zeros((trace_rows, 5))
    rows = simulate(g, system.code, system.policy, trace, 0)
    if system.code == codes.FORMED:
        former = Former(g, [t.profile for t in tenants], system.name.removesuffix(FORMED), system.squads)
        while g.world[0]["asks"]:
            former.arrange()
            rows = simulate(g, system.code, system.policy, trace, rows)
    world = g.world[0]
    room = max(float(world["inside"]) * gpu.sms, 1e-12)
    return Outcome(
        latency_ms=g.latency,
        end_ms=float(world["t"]),
        events=int(world["events"]),
        squads=int(world["squads"]),
        busy=float(world["busy"] / room),
        bubble=float(world["idle_able"] / room),
        trace=trace[:rows],
    )


def _compile(
    gpu: GpuSpec,
    tenants: Sequence[Tenant],
    times: NDArray[np.float64],
    system: System,
    closed: bool,
    extra: float,
    drag: float,
) -> state.Gpu:
    shares = np.arange(gpu.sms + 1) / gpu.sms
    return state.Gpu(
        kernels=np.concatenate([_kernels(t.profile, system) for t in tenants]),
        tenants=_tenants(gpu, tenants, system, drag, times),
        world=_world(gpu, system, closed, extra, drag),
        tau=np.concatenate([_tau(t.profile, gpu) for t in tenants]),
        ahead=np.zeros((len(tenants), system.ahead), state.AHEAD),
        gap=np.ascontiguousarray(times, np.float64),
        phi=(2.0 * shares) ** 0.3,
        latency=np.full(times.shape, np.nan),
        order=np.zeros(len(tenants), np.int64),
        holders=np.zeros(len(tenants), np.int64),
        sides=np.zeros((2, len(tenants))),
        chosen=np.zeros(len(tenants), np.int64),
        split=np.zeros(len(tenants), np.int64),
        waiting=np.zeros(len(tenants), np.bool_),
        seen=np.zeros((5, len(tenants))),
        places=np.zeros(len(tenants), np.int64),
    )


def _kernels(profile: Profile, system: System) -> NDArray[np.void]:
    kernels = np.zeros(len(profile.ms), state.KERNEL)
    kernels["sms"] = profile.sms
    kernels["ms"] = profile.ms
    expected = _expected(profile, system)
    kernels["done"] = np.cumsum(expected) - expected
    kernels["sense"] = np.array(profile.sense) if system.interferes else 0.0
    kernels["press"] = profile.press
    kernels["memory"] = profile.memory
    return kernels


def _expected(profile: Profile, system: System) -> NDArray[np.float64]:
    """What each kernel takes as the scheduler sees it: together no less than the host needs to issue them."""
    ms = np.array(profile.ms)
    scaled: NDArray[np.float64] = ms * max(1.0, len(ms) * system.host_ms / ms.sum())
    return scaled


def _tenants(
    gpu: GpuSpec, tenants: Sequence[Tenant], system: System, drag: float, times: NDArray[np.float64]
) -> NDArray[np.void]:
    rows = np.zeros(len(tenants), state.TENANT)
    rows["count"] = [len(t.profile.ms) for t in tenants]
    rows["first"] = np.cumsum(rows["count"]) - rows["count"]
    rows["quota"] = [t.quota for t in tenants]
    rows["target"] = [t.target_ms or iso_ms(t.profile, t.quota, gpu, drag) for t in tenants]
    rows["weight"] = [t.weight for t in tenants]
    rows["solo"] = [t.profile.solo_ms for t in tenants]
    rows["work"] = [_expected(t.profile, system).sum() for t in tenants]
    rows["need"] = [t.profile.need(gpu.sms) for t in tenants]
    rows["arrived"] = times[:, 0]
    rows["cap"] = _caps(gpu, tenants, system)
    rows["limit"] = state.ALL
    rows["half"] = state.ALL
    return rows


def _world(gpu: GpuSpec, system: System, closed: bool, extra: float, drag: float) -> NDArray[np.void]:
    world = np.zeros(1, state.WORLD)
    world["sms"] = gpu.sms
    world["closed"] = closed
    world["waves"] = gpu.waves
    world["launch"] = gpu.launch_ms
    world["switch"] = gpu.squad_switch_ms
    world["context"] = gpu.context_switch_ms
    world["host"] = system.host_ms
    world["gap"] = system.gap_ms
    world["free_drag"] = gpu.free_drag
    world["extra"] = extra if system.interferes else 0.0
    world["cap_drag"] = drag
    world["squad_max"] = system.squad_kernels
    world["squad_mode"] = system.squad_mode
    world["reading"] = system.reading
    world["rank_ms"] = system.rank_ms
    world["corun"] = system.corun
    world["slice_ms"] = system.slice_ms
    world["best_effort"] = system.best_effort_share
    return world


def _caps(gpu: GpuSpec, tenants: Sequence[Tenant], system: System) -> list[int]:
    quotas = [t.quota for t in tenants]
    if system.caps == "quota":
        return capped.gslice_caps(quotas, gpu.sms)
    if system.caps == "mig":
        return capped.mig_caps(quotas, gpu.mig_sms, gpu.sms)
    return [gpu.sms] * len(tenants)


def _tau(profile: Profile, gpu: GpuSpec) -> NDArray[np.float64]:
    ms, sms = np.array(profile.ms), np.array(profile.sms, np.int64)
    scale = waved if gpu.waves else stretched
    columns = [np.cumsum(scale(ms, sms, max(1, p * gpu.sms // PARTS), gpu.sms)) for p in range(1, PARTS + 1)]
    return np.ascontiguousarray(np.stack(columns, axis=1))
