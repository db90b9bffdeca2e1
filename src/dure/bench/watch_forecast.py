"""A day ahead, hour by hour: error over that of seasonal-naive, and how often the range of 80 % held.

Inputs: requests of the demo fleet, and where the public data is there, carbon of recorded grids and prices of
recorded markets. Each seed takes another stretch and another zone.
"""

from __future__ import annotations

from functools import cache

import click
import numpy as np
from numpy.typing import NDArray

from dure.adapters.memory.serving import rate_at
from dure.adapters.memory.stream import standing
from dure.bench.data import data_dir, data_file, read_rows
from dure.bench.result import Row
from dure.model.errors import NotFound
from dure.watch.forecast import ForecastSettings, forecast, seasonal_naive

Array = NDArray[np.float64]
PAST_H, AHEAD_H, ORIGINS = 24 * 42, 24, 14
_SETTINGS = ForecastSettings(floor=None)


def forecast_rows(chosen: list[int]) -> list[Row]:
    inputs = {"requests": _requests}
    if data_dir() is None:
        click.echo("no public data (DURE_DATA): forecasts of carbon and prices are left out", err=True)
    else:
        inputs |= {"carbon": _carbon, "price": _prices}
    rows = []
    for name, make in inputs.items():
        for seed in chosen:
            rows.append(_measured(name, seed, make(seed)))
            click.echo(f"forecast of {name}, seed {seed}", err=True)
    return rows


def _measured(name: str, seed: int, series: Array) -> Row:
    """From fourteen moments, 29 hours apart so that every hour of the day is one of them."""
    errors, naive_week, naive, held = [], [], [], []
    for origin in range(PAST_H, PAST_H + ORIGINS * 29, 29):
        past, came = series[origin - PAST_H : origin], series[origin : origin + AHEAD_H]
        values = np.array(forecast(past.tolist(), AHEAD_H, _SETTINGS).values)
        errors.append(np.abs(values[:, 1] - came).mean())
        naive.append(np.abs(seasonal_naive(past, AHEAD_H, 24) - came).mean())
        naive_week.append(np.abs(seasonal_naive(past, AHEAD_H, 168) - came).mean())
        held.append(((values[:, 0] <= came) & (came <= values[:, 2])).mean())
    best = min(float(np.mean(naive)), float(np.mean(naive_week)))
    return {
        "part": "forecasts", "policy": "dure", "input": name, "seed": seed,
        "mae": float(np.mean(errors)), "mae_naive_day": float(np.mean(naive)),
        "mae_naive_week": float(np.mean(naive_week)),
        "mae_ratio": round(float(np.mean(errors)) / max(1e-12, best), 4), "held_80": round(float(np.mean(held)), 4),
    }  # fmt: skip


def _requests(seed: int) -> Array:
    from dure.files.builtin import catalogue, demo_fleet

    services = standing(demo_fleet(), catalogue())
    service = services[seed % len(services)]
    begin_s = 1_767_571_200.0 + seed * 86_400.0
    rng = np.random.default_rng(seed)
    hours = PAST_H + ORIGINS * 29 + AHEAD_H
    rates = np.array([rate_at(service, begin_s + hour * 3600.0, seed) for hour in range(hours)])
    # Requests of an hour are counted, not known as a rate.
    return np.asarray(rng.poisson(np.maximum(rates, 0) * 3600), float)


def _carbon(seed: int) -> Array:
    return _stretch("carbon/electricitymaps_hourly_lca_2024.csv", seed)


def _prices(seed: int) -> Array:
    return _stretch("electricity-price/hourly_usd_per_mwh_2024.csv", seed)


def _stretch(file: str, seed: int) -> Array:
    """One zone's hours, another for each seed; zones with holes, or that only repeat their week, are passed over."""
    table = _zones(file)
    needed = PAST_H + ORIGINS * 29 + AHEAD_H
    names = sorted(name for name, values in table.items() if len(values) >= needed and _moves(values))
    if not names:
        raise NotFound(f"no zone of {file} has {needed} hours")
    values = table[names[(seed * 7) % len(names)]]
    begin = (seed * 997) % max(1, len(values) - needed)
    return values[begin : begin + needed]


def _moves(values: Array) -> bool:
    return bool(np.median(np.abs(values[168:] - values[:-168])) > 0)


@cache
def _zones(file: str) -> dict[str, Array]:
    columns: dict[str, list[float]] = {}
    for row in read_rows(data_file(file)):
        for name, text in row.items():
            if name != "datetime_utc":
                columns.setdefault(name, []).append(float(text) if text else np.nan)
    found = {name: np.array(values) for name, values in columns.items()}
    return {name: values for name, values in found.items() if not np.isnan(values).any()}
