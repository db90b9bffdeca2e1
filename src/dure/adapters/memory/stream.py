"""What the demo's tenants submit: a seeded stream with the rhythm of working days, made from catalogue templates.

Called by the embedded fleet, live and simulated. `arrivals` is a pure function of its arguments: any two windows
that overlap agree on the workloads they share, by name and by content.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from dure.adapters.memory import chance
from dure.model.catalogue import Catalogue
from dure.model.demand import Demand
from dure.model.fleet import Fleet
from dure.model.units import DAY_S, HOUR_S, Instant, Milli
from dure.model.workload import Replicas, Slo, Workload

_OFFICE_UTC_OFFSET_S = 9 * HOUR_S
_NUMBERS = 10_000


class Flow(msgspec.Struct, frozen=True):
    """So many workloads a day of one template by the tenant at this position of the fleet's list.

    `gangs` are drawn with equal chance; `stretch` multiplies the template's duration before its draw.
    """

    tenant: int
    template: str
    stem: str
    per_day: int
    gangs: tuple[int, ...] = (1,)
    stretch: float = 1.0
    nightly: bool = False
    urgent: float = 0.1


class Standing(msgspec.Struct, frozen=True):
    """A long-lived serving of one tenant."""

    tenant: int
    template: str
    stem: str
    replicas: Replicas
    rate_per_s: float


_FLOWS = (
    Flow(0, "finetune-7b", "tune", 16, stretch=1.3),
    Flow(0, "train-recommender", "rank", 14, stretch=1.3, urgent=0.25),
    Flow(0, "embed-corpus", "embed", 68, gangs=(1, 1, 2, 4), stretch=2.5, nightly=True),
    Flow(0, "transcribe-calls", "calls", 44, gangs=(1, 2), stretch=3.0),
    Flow(1, "train-vision", "train", 46, gangs=(1, 1, 2, 2, 4, 8), stretch=1.3),
    Flow(1, "score-frames", "frames", 68, gangs=(1, 2, 4), stretch=5.0, nightly=True),
    Flow(1, "render-images", "render", 38, gangs=(1, 2), stretch=4.0),
    Flow(2, "finetune-7b", "tune", 14, stretch=1.5, urgent=0.0),
    Flow(2, "pretrain-13b", "pretrain", 2, stretch=0.5, urgent=0.0),
    # Wants a whole hall of devices at once: it has to wait, and the reasons show why.
    Flow(2, "pretrain-13b", "grand", 1, gangs=(2,), stretch=0.15, urgent=1.0),
    Flow(2, "render-images", "sweep", 14, gangs=(1, 4), stretch=5.0, urgent=0.0),
)
_STANDING = (
    Standing(0, "serve-chat-7b", "chat", Replicas(3, 10), 18.0),
    Standing(0, "serve-embed", "embed", Replicas(3, 12), 220.0),
    Standing(0, "serve-chat-70b", "answers", Replicas(2, 4), 4.0),
    Standing(1, "serve-detector", "detector", Replicas(4, 16), 120.0),
    Standing(2, "serve-chat-7b", "tutor", Replicas(2, 4), 6.0),
)


class Small(msgspec.Struct, frozen=True):
    """A service that needs a small part of a small device."""

    stem: str
    compute_milli: Milli
    latency_p95_ms: float
    rate_per_s: float


_SMALL = (
    Small("rerank", 200, 80.0, 60.0),
    Small("spell", 200, 40.0, 90.0),
    Small("tags", 250, 150.0, 40.0),
)
_SMALL_CLASSES = ("t4", "l4")
# How much is submitted in each hour of a working day, by people and by nightly pipelines.
_OFFICE = (1, 1, 1, 1, 1, 1, 2, 4, 8, 14, 17, 14, 8, 14, 17, 16, 14, 11, 8, 5, 4, 3, 2, 2)
_NIGHT = (16, 18, 14, 9, 6, 4, 3, 3, 4, 6, 7, 6, 5, 6, 7, 6, 5, 5, 5, 5, 6, 8, 11, 14)
_WEEKEND_KEPT_OFFICE, _WEEKEND_KEPT_NIGHTLY = 0.45, 0.8


def arrivals(
    fleet: Fleet, catalogue: Catalogue, seed: int, since_s: Instant, until_s: Instant
) -> tuple[tuple[Instant, Workload], ...]:
    """Everything submitted in `since_s <= at < until_s`, by time then name."""
    first = int((since_s + _OFFICE_UTC_OFFSET_S) // DAY_S)
    last = int((until_s + _OFFICE_UTC_OFFSET_S) // DAY_S)
    found = (
        (at_s, _workload(fleet, catalogue.templates[flow.template], flow, seed, number))
        for flow in _FLOWS
        if _runs_here(fleet, catalogue, flow.template)
        for day in range(first, last + 1)
        for at_s, number in _day_of(flow, day, seed)
        if since_s <= at_s < until_s
    )
    return tuple(sorted(found, key=lambda item: (item[0], item[1].name)))


def standing(fleet: Fleet, catalogue: Catalogue) -> tuple[Workload, ...]:
    """The servings that are always there: submit those that are missing when the fleet starts."""
    return tuple(
        replace(
            catalogue.templates[want.template],
            name=f"{tenant}-{want.stem}",
            tenant=tenant,
            replicas=want.replicas,
            rate_per_s=want.rate_per_s,
            priority=100,
            deferrable=False,
        )
        for want in _STANDING
        if _runs_here(fleet, catalogue, want.template)
        for tenant in (_tenant(fleet, want.tenant),)
    )


def small_services(fleet: Fleet, catalogue: Catalogue) -> tuple[Workload, ...]:
    """Services that fit on one device together, so that a running demo has a device to look at. Simulations do
    without them."""
    base = catalogue.templates.get("serve-embed")
    if base is None or not _runs_here(fleet, catalogue, "serve-embed"):
        return ()
    tenant = _tenant(fleet, 0)
    return tuple(
        replace(
            base,
            name=f"{tenant}-{small.stem}",
            tenant=tenant,
            classes=tuple(accepted for accepted in base.classes if accepted.name in _SMALL_CLASSES),
            demand=Demand(memory_mib=2048, compute_milli=small.compute_milli, cpu_milli=1000, host_memory_mib=4096),
            replicas=Replicas(1, 1),
            rate_per_s=small.rate_per_s,
            slo=Slo(latency_p95_ms=small.latency_p95_ms),
            priority=100,
            deferrable=False,
        )
        for small in _SMALL
    )


def _runs_here(fleet: Fleet, catalogue: Catalogue, template: str) -> bool:
    """A fleet without tenants, or without any class that the template accepts, does not see this flow."""
    wanted = catalogue.templates.get(template)
    classes = {pool.class_name for cluster in fleet.clusters for pool in cluster.pools}
    return bool(fleet.tenants) and wanted is not None and any(accepted.name in classes for accepted in wanted.classes)


def _tenant(fleet: Fleet, position: int) -> str:
    return fleet.tenants[position % len(fleet.tenants)].name


def _day_of(flow: Flow, day: int, seed: int) -> Iterator[tuple[Instant, int]]:
    """When each numbered workload of a day comes, in order."""
    # Day 0 of the epoch was a Thursday.
    weekend = day % 7 in (2, 3)
    kept = (_WEEKEND_KEPT_NIGHTLY if flow.nightly else _WEEKEND_KEPT_OFFICE) if weekend else 1.0
    for slot in range(flow.per_day):
        number = day * flow.per_day + slot
        if chance.uniform(seed, "kept", flow.stem, flow.tenant, number) < kept:
            at_h = _hour_of(
                (slot + chance.uniform(seed, "when", flow.stem, flow.tenant, number)) / flow.per_day, flow
            )
            yield day * DAY_S + round(at_h * HOUR_S, 3) - _OFFICE_UTC_OFFSET_S, number


def _hour_of(part: float, flow: Flow) -> float:
    """When this part of a day's submissions has come in: the inverse of the hourly curve."""
    curve = _NIGHT if flow.nightly else _OFFICE
    left = part * sum(curve)
    for hour, amount in enumerate(curve):
        if left < amount:
            return hour + left / amount
        left -= amount
    return 24.0


def _workload(fleet: Fleet, template: Workload, flow: Flow, seed: int, number: int) -> Workload:
    tenant = _tenant(fleet, flow.tenant)

    def draw(what: str) -> float:
        return chance.uniform(seed, what, flow.stem, flow.tenant, number)

    urgent = draw("urgent") < flow.urgent
    spread = math.exp(0.5 * chance.normal(seed, "duration", flow.stem, flow.tenant, number) - 0.125)
    duration_s = float(round(template.duration_s * flow.stretch * spread))
    deadline_s = template.deadline_s or 24.0 * HOUR_S
    return replace(
        template,
        name=f"{tenant}-{flow.stem}-{number % _NUMBERS:04d}",
        tenant=tenant,
        gang=flow.gangs[int(draw("gang") * len(flow.gangs))] * template.gang,
        duration_s=duration_s,
        # Nobody asks for the impossible: three times the duration is the least that is promised.
        deadline_s=float(round(max(deadline_s, 3 * duration_s) * (0.75 if urgent else 1.0))),
        deferrable=not urgent and draw("deferrable") < 0.6,
        priority=50 if urgent else template.priority,
        regions=_home_regions(fleet) if draw("region") < 0.3 else template.regions,
        **_data(fleet, draw("dataset"), draw("dataset size")),
    )


def _home_regions(fleet: Fleet) -> tuple[str, ...]:
    """Data that may not leave the country of the first cluster."""
    country = fleet.clusters[0].info.region.partition("-")[0]
    return (f"{country}-*",) if country else ()


def _data(fleet: Fleet, which: float, size: float) -> dict[str, str | int]:
    """One workload in three reads a data set of the fleet, 20 to 200 GiB of it."""
    known = sorted({dataset for cluster in fleet.clusters for dataset in cluster.info.datasets})
    if not known or which >= 1 / 3:
        return {}
    return {"dataset": known[int(which * 3 * len(known))], "dataset_mib": int(1024 * 20 * 10**size)}
