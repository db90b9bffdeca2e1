"""Prices and carbon by the hour.

A tariff belongs to one pool of one cluster. Its weekly shapes are in UTC hours of the week (converted from
the cluster's time zone where the file is read), so that the core never needs a time-zone database.
"""

from __future__ import annotations

import enum

import msgspec

from dure.model.units import HOUR_S, Instant, Micros, hour_of_week


class Capacity(enum.StrEnum):
    """How a node is paid for."""

    OWNED = "owned"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Weekly(msgspec.Struct, frozen=True):
    """One value, or 168 of them for the UTC hours of a week from Monday 00:00."""

    values: tuple[Micros, ...]

    def at(self, at_s: Instant) -> Micros:
        return self.values[hour_of_week(at_s)] if len(self.values) > 1 else self.values[0]


class Tariff(msgspec.Struct, frozen=True, omit_defaults=True):
    """Prices per device and hour. `electricity` is per kWh and set only where the owner pays for power."""

    cluster: str
    pool: str
    class_name: str
    currency: str = "KRW"
    owned: Weekly | None = None
    on_demand: Weekly | None = None
    spot: Weekly | None = None
    reclaim_per_hour: float = 0.0
    electricity: Weekly | None = None
    egress_micros_per_gib: Micros = 0

    def per_hour(self, capacity: Capacity) -> Weekly | None:
        match capacity:
            case Capacity.OWNED:
                return self.owned
            case Capacity.ON_DEMAND:
                return self.on_demand
            case Capacity.SPOT:
                return self.spot

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        return tuple(capacity for capacity in Capacity if self.per_hour(capacity) is not None)


class CarbonSeries(msgspec.Struct, frozen=True):
    """Grid intensity in g/kWh from `start_s`, one value a step; `None` is unknown, which is never zero."""

    grid: str
    start_s: Instant
    g_per_kwh: tuple[float | None, ...]
    step_s: int = HOUR_S
    demo: bool = False

    def at(self, at_s: Instant) -> float | None:
        index = int((at_s - self.start_s) // self.step_s)
        return self.g_per_kwh[index] if 0 <= index < len(self.g_per_kwh) else None
