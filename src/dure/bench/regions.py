"""Real regions as arrays: list and spot price, grid carbon, electricity price and PUE, hour by hour.

Read from the public data by `gap` and `place`. One year of hours (2024 for carbon and electricity); spot prices
are by day and repeat when the horizon is longer than their history. Where only a yearly mean of carbon is
published the series is flat and `carbon_hourly` says so: an invented shape would be a lie.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import msgspec
import numpy as np

from dure.bench.data import data_file, read_rows
from dure.model.errors import InvalidInput
from dure.place.instance import Floats

INSTANCE_TYPE = "p4d.24xlarge"
DEVICES = 8
# What one device draws under load with its share of the host, in kW (8 x A100-40 host, about 5 kW).
DEVICE_KW = 5.0 / 8
HOURS = 8784
# Spot history without a hole in which all twelve regions are listed.
SPOT_FROM, SPOT_UNTIL = "2025-11-21", "2026-03-31"
# Where a provider publishes no PUE.
TYPICAL_PUE = 1.2
TYPICAL_USD_PER_MWH = 60.0

# Seoul first (the home); the first six are the mixed six, clean and dirty grids on three continents.
REGIONS = (
    "ap-northeast-2", "us-east-1", "us-west-2", "eu-central-1", "eu-north-1", "ap-northeast-1",
    "us-east-2", "eu-west-1", "ap-southeast-2", "ap-south-1", "ca-central-1", "eu-west-2",
)  # fmt: skip
# The six of the twelve with the most grams per kWh at the wall (mean intensity x PUE) that have hourly figures.
DIRTY = ("ap-northeast-2", "us-east-1", "eu-central-1", "ap-northeast-1", "ap-southeast-2", "ap-south-1")
# The same with us-east-2 for the dirtiest grid: the two cheapest regions share one grid, so little can be gained.
PLAIN = ("ap-northeast-2", "us-east-1", "us-east-2", "eu-central-1", "ap-northeast-1", "ap-southeast-2")

_ZONES = {"DE": "DE-LU"}


class Region(msgspec.Struct, frozen=True):
    """Prices are USD per device and hour, carbon g/kWh, electricity USD/MWh."""

    name: str
    zone: str
    pue: float
    on_demand: float
    spot: Floats
    carbon: Floats
    electricity: Floats
    carbon_hourly: bool

    def rent(self, first: int, hours: int, spot: bool) -> Floats:
        if not spot:
            return np.full(hours, self.on_demand)
        return self.spot[(first + np.arange(hours)) % len(self.spot)]

    def grams_per_device_hour(self, first: int, hours: int) -> Floats:
        return DEVICE_KW * self.pue * self.carbon[(first + np.arange(hours)) % len(self.carbon)]

    def power_usd(self, first: int, hours: int) -> Floats:
        return DEVICE_KW * self.pue * self.electricity[(first + np.arange(hours)) % len(self.electricity)] / 1000


def regions(names: tuple[str, ...]) -> tuple[Region, ...]:
    return tuple(_region(name) for name in names)


def first_regions(count: int) -> tuple[Region, ...]:
    if not 1 <= count <= len(REGIONS):
        raise InvalidInput(f"{count} regions asked for; the data has 1 to {len(REGIONS)}")
    return regions(REGIONS[:count])


@cache
def _region(name: str) -> Region:
    zone, pue, yearly = _grid(name)
    days = _spot(name)
    hourly = zone in _hourly("carbon/electricitymaps_hourly_lca_2024.csv")
    carbon = _hourly("carbon/electricitymaps_hourly_lca_2024.csv")[zone] if hourly else np.full(HOURS, yearly)
    power = _hourly("electricity-price/hourly_usd_per_mwh_2024.csv").get(zone)
    if power is None:
        power = np.full(HOURS, TYPICAL_USD_PER_MWH)
    return Region(name, zone, pue, _on_demand(name) / DEVICES, np.repeat(days, 24) / DEVICES, carbon, power, hourly)


def _grid(name: str) -> tuple[str, float, float]:
    for row in read_rows(data_file("carbon/cloud_region_map.csv")):
        if row["cloud-provider"] == "Amazon Web Services" and row["cloud-region"] == name:
            zone = row["em-zone-id"]
            pue = row["power-usage-effectiveness"]
            yearly = row["grid-carbon-intensity-average-consumption-annual"]
            return _ZONES.get(zone, zone), float(pue) if pue else TYPICAL_PUE, float(yearly)
    raise InvalidInput(f"region {name} is not in the region map")


@cache
def _spot_rows() -> dict[str, dict[str, tuple[float, float]]]:
    by_region: dict[str, dict[str, tuple[float, float]]] = {}
    for row in read_rows(data_file("skypilot-catalog/aws_spot_daily_by_region.csv")):
        if row["instance_type"] == INSTANCE_TYPE and SPOT_FROM <= row["date"] <= SPOT_UNTIL:
            prices = (float(row["spot_min_usd_h"]), float(row["ondemand_usd_h"]))
            by_region.setdefault(row["region"], {})[row["date"]] = prices
    return by_region


def _spot(name: str) -> Floats:
    """Daily prices; a day without a listing keeps the price of the last listed one."""
    days = sorted({day for listed in _spot_rows().values() for day in listed})
    listed = _spot_rows()[name]
    known = [listed[day][0] if day in listed else float("nan") for day in days]
    return _filled(np.array(known))


def _on_demand(name: str) -> float:
    # Two listings differ by 2e-6 USD; four digits keep that rounding from deciding who is cheapest.
    return round(next(iter(_spot_rows()[name].values()))[1], 4)


@cache
def _hourly(file: str) -> dict[str, Floats]:
    columns: dict[str, list[float]] = {}
    for row in read_rows(data_file(file)):
        for zone, text in row.items():
            if zone != "datetime_utc":
                columns.setdefault(zone, []).append(float(text) if text else float("nan"))
    return {zone: _filled(np.array(values)) for zone, values in columns.items()}


def _filled(values: Floats) -> Floats:
    """Short gaps are bridged in a straight line; it is done here, for a benchmark, and never in the product."""
    known = np.flatnonzero(~np.isnan(values))
    if len(known) == 0:
        raise InvalidInput("a series of the public data is empty")
    if any(after - before > 48 for before, after in pairwise(known)):
        raise InvalidInput("a series of the public data has a hole of more than two days")
    return np.interp(np.arange(len(values)), known, values[known])
