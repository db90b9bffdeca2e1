"""Plots of the routing benchmark: bars of the makespans and, for each run shown, a Gantt chart per queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dure.bench.result import Row
from dure.sim.queues.world import Run, Stay

_COLOURS = {"gpu": "#4c78a8", "light": "#f58518"}


def figures(rows: Sequence[Row], runs: Mapping[tuple[str, str], Run]) -> list[Any]:
    return [_bars(rows), *(_gantt(scenario, name, run) for (scenario, name), run in runs.items())]


def _bars(rows: Sequence[Row]) -> Any:
    import plotly.graph_objects as go

    chart = go.Figure()
    for name in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == name]
        chart.add_bar(name=str(name), x=[row["scenario"] for row in own], y=[row["makespan_s"] for row in own])
    best = {row["scenario"]: row["optimum_s"] for row in rows if row.get("optimum_s") is not None}
    line = {"symbol": "line-ew-open", "size": 40, "color": "#111"}
    chart.add_scatter(name="clairvoyant optimum", x=list(best), y=list(best.values()), mode="markers", marker=line)
    chart.update_layout(title="Makespan, first submission to last end", yaxis_title="seconds", barmode="group")
    return chart


def _gantt(scenario: str, name: str, run: Run) -> Any:
    import plotly.graph_objects as go

    chart = go.Figure()
    for kind, colour in _COLOURS.items():
        own = [(stay, row) for stay, row in _slots(run) if stay.kind == kind]
        chart.add_bar(
            name=kind,
            orientation="h",
            base=[stay.started_s - run.first_s for stay, _ in own],
            x=[stay.ended_s - stay.started_s for stay, _ in own],
            y=[row for _, row in own],
            text=[stay.job for stay, _ in own],
            marker={"color": colour, "line": {"color": "#fff", "width": 1}},
        )
    chart.update_layout(title=f"{scenario}, {name}: what ran where", barmode="overlay", xaxis_title="seconds")
    chart.update_yaxes(categoryorder="category descending")
    return chart


def _slots(run: Run) -> list[tuple[Stay, str]]:
    """Each stay with a row of its queue that is free at that time."""
    free: dict[str, list[float]] = {}
    placed = []
    for stay in sorted(run.stays, key=lambda one: (one.started_s, one.job)):
        rows = free.setdefault(stay.queue, [])
        row = next((number for number, until in enumerate(rows) if until <= stay.started_s + 1e-9), len(rows))
        rows[row : row + 1] = [stay.ended_s]
        placed.append((stay, f"{stay.queue} {row + 1:02d}"))
    return placed
