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


OURS, MOVES = "ours", "ours+moves"
# The row of a plan that is late somewhere: money of the jobs it serves in time, and its ratio to the floor of those.
# With moves there is always one, with its ratio to the floor of plans that may move as well.
IN_TIME = {OURS: "in-time", MOVES: "in-time+moves"}


class _Front:
    """The points of one policy of ours by carbon price, held against the rules and the floor of their world."""

    def __init__(self, rows: Sequence[Row], policy: str, world: _World) -> None:
        mine = (row for row in rows if row["policy"] == policy)
        self.points = sorted(mine, key=lambda row: _n(row["usd_per_t"]))
        self.in_time = next((row for row in rows if row["policy"] == IN_TIME[policy]), None)
        self.world = world

    @property
    def ratio(self) -> float:
        return _n(self.points[0]["money_ratio"])

    @property
    def above_floor(self) -> float:
        """Of the cheapest point; where it misses deadlines, as the floor does not, of the jobs it serves in time."""
        if self.in_time is not None:
            return 100 * (_n(self.in_time["money_ratio"]) - 1)
        floor = next(bound.value for bound in self.world.bounds if bound.usd_per_t == 0)
        return 100 * (_n(self.points[0]["money"]) / floor - 1)

    @property
    def above_moving_floor(self) -> float:
        return 100 * (_n(self.in_time["moving_ratio"]) - 1) if self.in_time is not None else float("nan")

    @property
    def saved(self) -> float | None:
        within = [_n(row["co2_kg"]) for row in self.points if _n(row["money"]) <= self.world.limit]
        return 100 * (1 - min(within) / _n(self.world.cheapest["co2_kg"])) if within else None

    @property
    def missed(self) -> float:
        return max(_n(row["missed_pct"]) for row in self.points)

    @property
    def interrupted(self) -> float:
        """Moves and pauses of the cheapest point."""
        return _n(self.points[0]["moves"]) + _n(self.points[0]["pauses"])

    @property
    def dominating(self) -> list[str]:
        """Rules that are at least as good as one of the points in money, CO2 and misses and better in one."""
        return [
            f"{rule['policy']} over {point['usd_per_t']} USD/t"
            for rule in self.world.rules.values()
            for point in self.points
            if _dominates(rule, point)
        ]


class _World:
    """The rows of one world: rules, our fronts, the floor."""

    def __init__(self, rows: Sequence[Row]) -> None:
        own = ("floor", *IN_TIME.keys(), *IN_TIME.values())
        self.rules = {str(row["policy"]): row for row in rows if row["policy"] not in own}
        self.bounds = [Bound(int(_n(row["usd_per_t"])), _n(row["money"])) for row in rows if row["policy"] == "floor"]
        self.cheapest = self.rules[CHEAPEST]
        self.limit = 1.01 * _n(self.cheapest["money"])
        self.ours = _Front(rows, OURS, self)
        moved = _Front(rows, MOVES, self)
        self.moved = moved if moved.points else None

    @property
    def possible(self) -> float:
        return 100 * (1 - least_grams(self.bounds, self.limit) / 1000 / _n(self.cheapest["co2_kg"]))


def _dominates(rule: Row, point: Row) -> bool:
    pairs = [(_n(rule[axis]), _n(point[axis])) for axis in ("money", "co2_kg", "missed_pct")]
    return all(a <= b * (1 + 1e-9) for a, b in pairs) and any(a < b * (1 - 1e-6) for a, b in pairs)


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """`cells`: one per kind of world and policy of ours, means over its seeds. `bars`: how many cells meet each."""
    told = []
    for kind, worlds in _kinds(rows).items():
        told.append(_cell(kind, OURS, worlds, [one.ours for one in worlds]))
        moved = [one.moved for one in worlds if one.moved is not None]
        if len(moved) == len(worlds):
            told.append(_cell(kind, MOVES, worlds, moved))
    met: dict[str, list[bool]] = {}
    for cell in told:
        for name, kept in _bars(cell):
            met.setdefault(name if cell["policy"] == OURS else f"{name}, with moves", []).append(kept)
    bars = {name: f"{sum(kept)} of {len(kept)} cells" for name, kept in met.items()}
    return {"cells": [_rounded(cell) for cell in told], "bars": bars}


def _cell(kind: tuple[Cell, ...], policy: str, worlds: list[_World], fronts: list[_Front]) -> dict[str, Cell]:
    saved = [one.saved for one in fronts]
    known = [value for value in saved if value is not None]
    moves: dict[str, Cell] = {}
    if policy == MOVES:
        moves["above_moving_floor_pct"] = mean(one.above_moving_floor for one in fronts)
        moves["interrupted"] = mean(one.interrupted for one in fronts)
    return {
        **dict(zip(KIND, kind, strict=True)),
        "policy": policy,
        "seeds": len(worlds),
        "lowest_price_ratio": mean(_n(one.cheapest["money_ratio"]) for one in worlds),
        "ours_ratio": mean(one.ratio for one in fronts),
        "above_floor_pct": mean(one.above_floor for one in fronts),
        **moves,
        "co2_saved_pct": mean(known) if len(known) == len(saved) else None,
        "co2_saved_worst_pct": min(known) if known else None,
        "co2_possible_pct": mean(one.possible for one in worlds),
        "missed_pct": mean(one.missed for one in fronts),
        "lowest_price_missed_pct": mean(_n(one.cheapest["missed_pct"]) for one in worlds),
        "dominated_by": "; ".join(sorted({name for one in fronts for name in one.dominating})) or "nobody",
    }


# Digits behind the point that are shown; bars are held against the figures themselves.
_DIGITS = {
    "above_moving_floor_pct": 2, "interrupted": 1, "lowest_price_ratio": 3, "ours_ratio": 3, "above_floor_pct": 2,
    "co2_saved_pct": 1, "co2_saved_worst_pct": 1, "co2_possible_pct": 1, "missed_pct": 3,
    "lowest_price_missed_pct": 3,
}  # fmt: skip


def _rounded(cell: dict[str, Cell]) -> dict[str, Cell]:
    return {
        name: round(value, _DIGITS[name]) if name in _DIGITS and isinstance(value, float) else value
        for name, value in cell.items()
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
    line = f"{_line(one.ours)}, CO2 {_saved(one.ours)} % less at lowest price + 1 % ({one.possible:.1f} possible)"
    if one.moved is None:
        return line
    return f"{line}; with moves {_line(one.moved)}, CO2 {_saved(one.moved)} % less"


def _line(one: _Front) -> str:
    return f"money {one.ratio:.3f} of the fixed order, {one.above_floor:.1f} % above the floor"


def _saved(one: _Front) -> str:
    return "-" if one.saved is None else f"{one.saved:.1f}"


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
    ours = world.ours.points
    _front_of(figure, ours, "ours, by carbon price", "#0a7d5a")
    if world.moved is not None:
        _front_of(figure, world.moved.points, "ours with moves", "#5b6ee1")
    rules = list(world.rules.values())
    late = [_n(row["missed_pct"]) > _n(world.cheapest["missed_pct"]) for row in rules]
    figure.add_scatter(
        x=[row["money_ratio"] for row in rules], y=[row["co2_ratio"] for row in rules], mode="markers+text",
        name="rules (hollow: later than lowest price)", text=[str(row["policy"]) for row in rules],
        textposition=_positions(rules), textfont={"size": 10}, hovertext=[_hover(row) for row in rules],
        hoverinfo="text",
        marker={"symbol": ["diamond-open" if more else "diamond" for more in late], "size": 8, "color": "#b5541c"},
    )  # fmt: skip
    lowest = next(bound.value for bound in world.bounds if bound.usd_per_t == 0)
    highest = max(_n(row["money"]) for row in (*ours, world.cheapest)) * 1.03
    spent = np.linspace(lowest, highest, 80)
    figure.add_scatter(
        x=[lowest / money, *(spent / money)],
        y=[max(_n(row["co2_ratio"]) for row in rules), *(least_grams(world.bounds, m) / 1000 / co2 for m in spent)],
        mode="lines", name="floor: below or left of it no plan keeps all deadlines and stops nobody",
        line={"dash": "dot", "color": "#555"},
    )  # fmt: skip
    figure.add_vline(
        x=world.limit / money, line_dash="dash", line_color="#bbb", annotation_text=" lowest price + 1 %"
    )
    figure.update_layout(
        title=title, xaxis_title="money / fixed order", yaxis_title="CO2 / fixed order", height=520,
        legend={"orientation": "h", "y": -0.18}, template="plotly_white",
    )  # fmt: skip
    return figure


def _front_of(figure: Any, points: Sequence[Row], name: str, colour: str) -> None:
    """A line through the plans that no other of them beats in money and CO2; the others are dots beside it."""
    best = _pareto(points)
    for rows, mode, size in (([row for row in points if row not in best], "markers", 4), (best, "lines+markers", 7)):
        figure.add_scatter(
            x=[row["money_ratio"] for row in rows], y=[row["co2_ratio"] for row in rows], mode=mode, name=name,
            showlegend=rows is best, hovertext=[_hover(row) for row in rows], hoverinfo="text",
            opacity=1.0 if rows is best else 0.5, marker={"size": size, "color": colour},
            line={"color": colour, "width": 2},
        )  # fmt: skip


def _pareto(points: Sequence[Row]) -> list[Row]:
    """Those than which no other is as cheap and emits less, by money."""
    found: list[Row] = []
    for row in sorted(points, key=lambda row: (_n(row["money_ratio"]), _n(row["co2_ratio"]))):
        if not found or _n(row["co2_ratio"]) < _n(found[-1]["co2_ratio"]):
            found.append(row)
    return found


def _hover(row: Row) -> str:
    carbon = f" at {row['usd_per_t']} USD/t" if _n(row["usd_per_t"]) else ""
    money, co2, missed = (_n(row[name]) for name in ("money_ratio", "co2_ratio", "missed_pct"))
    return f"{row['policy']}{carbon}: money {money:.3f}, CO2 {co2:.3f}, {missed:.1f} % missed"


def _positions(rules: Sequence[Row]) -> list[str]:
    """Labels of neighbours on the money axis go above and below in turn, so that they stay readable."""
    order = sorted(range(len(rules)), key=lambda at: _n(rules[at]["money_ratio"]))
    places = ["top center"] * len(rules)
    for turn, at in enumerate(order):
        places[at] = ("top center", "bottom center", "middle right")[turn % 3]
    return places
