"""One figure at one moment: what `MetricsPort` keeps and `watch` makes and reads."""

from __future__ import annotations

import msgspec

from dure.model.units import Grams, Instant, Micros


class Sample(msgspec.Struct, frozen=True):
    name: str
    labels: dict[str, str]
    at_s: Instant
    value: float


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fleet's headline figures at one moment of its clock."""

    at_s: Instant
    cost_per_hour_micros: Micros
    carbon_g_per_hour: Grams
    used: float
    running: int
    held: int
    slo_attainment: float | None = None
