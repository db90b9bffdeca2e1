"""What the rows of `bench place` come to: a line per kind of world (mean over seeds), bars, the front as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np

from dure.bench.place_floor import Bound, least_grams
from dure.bench.place_rules import CHEAPEST, FIXED
from dure.bench.result import Cell, Row

KIND = ("trace", "places", "prices", "use", "slack")
# Bars: % above the money floor; % of CO2 saved at lowest price + 1 % in mixed and in dirty regions.
ABOVE_FLOOR_PCT = 5.0
SAVED_PCT = {"six": 35.0, "dirty": 12.0}


# The row of a plan that is late somewhere: money of the jobs it serves in time, and its ratio to the floor of those.
IN_TIME = "in-time"


class _World:
    """The rows of one world: rules, our front, the floor."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rules = {str(row["policy"]): row for row in rows if row["policy"] not in ("ours", "floor", IN_TIME)}
        self.in_time = next((row for row in rows if row["policy"] == IN_TIME), None)
        self.ours = sorted((row for row in rows if row["policy"] == "ours"), key=lambda row: _n(row["usd_per_t"]))
        self.bounds = [Bound(int(_n(row["usd_per_t"])), _n(row["money"])) for row in rows if row["policy"] == "floor"]
        self.cheapest = self.rules[CHEAPEST]
        self.limit = 1.01 * _n(self.cheapest["money"])

    @property
    def above_floor(self) -> float:
        """Of our cheapest point; where it misses deadlines, as the floor does not, of the jobs it serves in time."""
        if self.in_time is not None:
            return 100 * (_n(self.in_time["money_ratio"]) - 1)
        floor = next(bound.value for bound in self.bounds if bound.usd_per_t == 0)
        return 100 * (_n(self.ours[0]["money"]) / floor - 1)

    @property
    def saved(self) -> float | None:
        within = [_n(row["co2_kg"]) for row in self.ours if _n(row["money"]) <= self.limit]
        return 100 * (1 - min(within) / _n(self.cheapest["co2_kg"])) if within else None

    @property
    def possible(self) -> float:
        return 100 * (1 - least_grams(self.bounds, self.limit) / 1000 / _n(self.cheapest["co2_kg"]))

    @property
    def dominating(self) -> list[str]:
        """Rules that are at least as good as one of our points in money, CO2 and misses and better in one."""
        return [
            f"{rule['policy']} over {point['usd_per_t']} USD/t"
            for rule in self.rules.values()
            for point in self.ours
            if _dominates(rule, point)
        ]


def _dominates(rule: Row, point: Row) -> bool:
    pairs = [(_n(rule[axis]), _n(point[axis])) for axis in ("money", "co2_kg", "missed_pct")]
    return all(a <= b * (1 + 1e-9) for a, b in pairs) and any(a < b * (1 - 1e-6) for a, b in pairs)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """`cells`: one per kind of world, means over its seeds. `bars`: how many cells meet each."""
    told = [_cell(kind, worlds) for kind, worlds in _kinds(rows).items()]
    met: dict[str, list[bool]] = {}
    for cell in told:
        for name, kept in _bars(cell):
            met.setdefault(name, []).append(kept)
    return {"cells": told, "bars": {name: f"{sum(kept)} of {len(kept)} cells" for name, kept in met.items()}}


def _cell(kind: tuple[Cell, ...], worlds: list[_World]) -> dict[str, Cell]:
    saved = [one.saved for one in worlds]
    known = [value for value in saved if value is not None]
    return {
        **dict(zip(KIND, kind, strict=True)),
        "seeds": len(worlds),
        "lowest_price_ratio": round(mean(_n(one.cheapest["money_ratio"]) for one in worlds), 3),
        "ours_ratio": round(mean(_n(one.ours[0]["money_ratio"]) for one in worlds), 3),
        "above_floor_pct": round(mean(one.above_floor for one in worlds), 2),
        "co2_saved_pct": round(mean(known), 1) if len(known) == len(saved) else None,
        "co2_saved_worst_pct": round(min(known), 1) if known else None,
        "co2_possible_pct": round(mean(one.possible for one in worlds), 1),
        "missed_pct": round(mean(max(_n(row["missed_pct"]) for row in one.ours) for one in worlds), 3),
        "lowest_price_missed_pct": round(mean(_n(one.cheapest["missed_pct"]) for one in worlds), 3),
        "dominated_by": "; ".join(sorted({name for one in worlds for name in one.dominating})) or "nobody",
    }


def _bars(cell: dict[str, Cell]) -> list[tuple[str, bool]]:
    found = [("no rule dominates ours", cell["dominated_by"] == "nobody")]
    if cell["slack"] == "1.5x":
        found.append((f"within {ABOVE_FLOOR_PCT:g} % of the floor", _n(cell["above_floor_pct"]) <= ABOVE_FLOOR_PCT))
    missed, rule = _n(cell["missed_pct"]), _n(cell["lowest_price_missed_pct"])
    found.append(("misses no higher than lowest-price", missed <= rule))
    bar = SAVED_PCT.get(str(cell["places"]))
    if bar is not None:
        name = f"{bar:g} % less CO2 at lowest price + 1 % ({cell['places']})"
        found.append((name, _n(cell["co2_saved_pct"]) >= bar))
    return found


def told(rows: Sequence[Row]) -> str:
    """One world in a line, for the progress on standard error."""
    one = _World(rows)
    saved = "-" if one.saved is None else f"{one.saved:.1f}"
    return (
        f"money {_n(one.ours[0]['money_ratio']):.3f} of the fixed order, {one.above_floor:.1f} % above the floor, "
        f"CO2 {saved} % less at lowest price + 1 % ({one.possible:.1f} possible)"
    )


def _kinds(rows: Sequence[Row]) -> dict[tuple[Cell, ...], list[_World]]:
    by_world: dict[tuple[Cell, ...], list[Row]] = {}
    for row in rows:
        by_world.setdefault((*(row[name] for name in KIND), row["seed"], row["jobs"]), []).append(row)
    kinds: dict[tuple[Cell, ...], list[_World]] = {}
    for key, mine in by_world.items():
        kinds.setdefault(key[: len(KIND)], []).append(_World(mine))
    return kinds


def _n(cell: Cell) -> float:
    return float(cell) if isinstance(cell, (int, float)) else float("nan")


def figures(rows: Sequence[Row]) -> list[Any]:
    """The front of the first seed of each kind, the rules around it, the floor under it."""
    return [_figure(_title(*kind), worlds[0]) for kind, worlds in _kinds(rows).items()]


def _title(trace: Cell, places: Cell, prices: Cell, use: Cell, slack: Cell) -> str:
    return f"{trace} jobs, {places} regions, {prices} prices, {100 * _n(use):.0f} % use, {slack} to the deadline"


def _figure(title: str, world: _World) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    fixed = world.rules[FIXED]
    money, co2 = _n(fixed["money"]), _n(fixed["co2_kg"])
    ours = sorted(world.ours, key=lambda row: _n(row["money"]))
    figure.add_scatter(
        x=[row["money_ratio"] for row in ours], y=[row["co2_ratio"] for row in ours], mode="lines+markers",
        name="ours, by carbon price", text=[f"{row['usd_per_t']} USD/t" for row in ours], hoverinfo="text+x+y",
        line={"color": "#0a7d5a", "width": 2},
    )  # fmt: skip
    rules = list(world.rules.values())
    figure.add_scatter(
        x=[row["money_ratio"] for row in rules], y=[row["co2_ratio"] for row in rules], mode="markers+text",
        name="rules", text=[str(row["policy"]) for row in rules], textposition=_positions(rules),
        textfont={"size": 10}, marker={"symbol": "diamond", "size": 8, "color": "#b5541c"},
    )  # fmt: skip
    lowest = next(bound.value for bound in world.bounds if bound.usd_per_t == 0)
    highest = max(_n(row["money"]) for row in (*ours, world.cheapest)) * 1.03
    spent = np.linspace(lowest, highest, 80)
    figure.add_scatter(
        x=[lowest / money, *(spent / money)],
        y=[max(_n(row["co2_ratio"]) for row in rules), *(least_grams(world.bounds, m) / 1000 / co2 for m in spent)],
        mode="lines", name="Lagrangian floor: no plan below or left of it", line={"dash": "dot", "color": "#555"},
    )  # fmt: skip
    figure.add_vline(x=world.limit / money, line_dash="dash", line_color="#bbb", annotation_text="lowest price + 1 %")
    figure.update_layout(
        title=title, xaxis_title="money / fixed order", yaxis_title="CO2 / fixed order", height=520,
        legend={"orientation": "h", "y": -0.18}, template="plotly_white",
    )  # fmt: skip
    return figure


def _positions(rules: Sequence[Row]) -> list[str]:
    """Labels of neighbours on the money axis go above and below in turn, so that they stay readable."""
    order = sorted(range(len(rules)), key=lambda at: _n(rules[at]["money_ratio"]))
    places = ["top center"] * len(rules)
    for turn, at in enumerate(order):
        places[at] = ("top center", "bottom center", "middle right")[turn % 3]
    return places
