"""What the scaling benchmark's rows say: misses at equal GPU-hours, the gap to the oracle, what order is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dure.bench.result import Row
from dure.bench.scale_cells import PLAIN
from dure.bench.scale_shared import NAME, shared_summary
from dure.sim.serving.frontier import Point, hours_at, misses_at

THRESHOLDS = ("hpa", "keda", "preset")
AT_MISSES = 0.02
# The two that everybody looks for; the others take the palette's colours.
LINES = {"oracle": {"color": "black", "dash": "dot"}, "dure": {"color": "crimson", "width": 4}}


def summarise(rows: Sequence[Row], way: tuple[str, str]) -> dict[str, Any]:
    """Per scenario and seed: the best threshold's cost at 2 % misses and everybody's misses at that cost."""
    summary: dict[str, Any] = {}
    for case in dict.fromkeys((str(row["input"]), int(row["seed"] or 0)) for row in rows):
        mine = [row for row in rows if (row["input"], row["seed"]) == case]
        if case[0].startswith(f"{NAME}-"):
            summary[f"{case[0]} seed {case[1]}"] = shared_summary(mine)
            continue
        name = f"{case[0]} seed {case[1]}"
        summary[name] = _equal_cost(_gone(mine, way))
        worth = _order_worth(mine)
        if worth:
            summary[f"{name}, router and order"] = worth
    return summary


def figures(rows: list[Row], way: tuple[str, str]) -> list[Any]:
    """One plot of misses over GPU-hours for each scenario and seed: other seeds are other streams."""
    import plotly.graph_objects as go

    plots = []
    gone = _gone(rows, way)
    for scenario, seed in dict.fromkeys((str(row["input"]), row["seed"]) for row in gone):
        mine = [row for row in gone if (row["input"], row["seed"]) == (scenario, seed)]
        figure = go.Figure()
        for series in dict.fromkeys((str(row["policy"]), str(row["signal"])) for row in mine):
            points = sorted(_points([row for row in mine if (row["policy"], row["signal"]) == series]))
            figure.add_scatter(
                x=[hours for hours, _ in points],
                y=[max(misses, 1e-5) * 100 for _, misses in points],
                name=" ".join(series),
                mode="lines+markers",
                line=LINES.get(series[0]),
            )
        figure.update_layout(
            title=f"{scenario}, seed {seed}: misses over GPU-hours",
            xaxis_title="GPU-hours",
            yaxis_title="misses, per cent",
        )
        figure.update_xaxes(type="log")
        figure.update_yaxes(type="log")
        plots.append(figure)
    return plots


def _gone(rows: list[Row], way: tuple[str, str]) -> list[Row]:
    return [row for row in rows if (row["router"], row["order"]) == way]


def _points(rows: list[Row]) -> list[Point]:
    return [(float(row["gpu_hours"] or 0.0), float(row["miss_rate"] or 0.0)) for row in rows]


def _equal_cost(rows: list[Row]) -> dict[str, Any]:
    rivals = [row for row in rows if row["policy"] in THRESHOLDS]
    hours = hours_at(_points(rivals), AT_MISSES)
    if hours is None:
        return {"note": "no threshold reaches two per cent of misses"}
    best = misses_at(_points(rivals), hours)
    ours = misses_at(_points([row for row in rows if row["policy"] == "dure"]), hours)
    oracle = misses_at(_points([row for row in rows if row["policy"] == "oracle"]), hours)
    signals = sorted({str(row["signal"]) for row in rivals if row["policy"] != "preset"})
    by_signal = {
        signal: misses_at(_points([row for row in rivals if row["signal"] == signal]), hours) for signal in signals
    }
    return {
        "gpu_hours": hours,
        "best_threshold": best,
        "best_signal": min(by_signal, key=lambda signal: by_signal[signal]),
        "dure": ours,
        "dure_to_best": ours / best,
        "oracle": oracle,
        "gap_closed": (best - ours) / (best - oracle) if oracle < best else None,
        "misses_by_signal": by_signal,
    }


def _order_worth(rows: list[Row]) -> dict[str, float]:
    special = [row for row in rows if (row["router"], row["order"]) != PLAIN]
    if not special or len(special) == len(rows):
        return {}
    one = special[0]
    same = [row for row in rows if all(row[name] == one[name] for name in ("policy", "signal", "knob"))]
    return {f"{row['router']} + {row['order']}": float(row["miss_rate"] or 0.0) for row in same}
