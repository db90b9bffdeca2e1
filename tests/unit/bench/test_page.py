"""The HTML page of a benchmark: readable on a white and on a black ground, words left, figures right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from plotly import graph_objects

from dure.bench.pack import _allocated, _behind
from dure.bench.page import write_page
from dure.bench.result import Result, Row

ROWS: list[Row] = [
    {"policy": "dure", "alloc_pct": 97.5, "bound_pct": None},
    {"policy": "fgd", "alloc_pct": 97.0, "bound_pct": 98.0},
]


def test_the_page_has_each_figure_and_row_and_needs_no_ground_of_its_own(tmp_path: Path) -> None:
    figure = graph_objects.Figure()
    write_page(tmp_path / "page.html", Result("pack", ROWS, {"pods/dure": "97.5 ± 0.1"}), [figure])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<td class=text>dure</td><td>97.5</td><td></td>" in text
    assert "<th>alloc_<wbr>pct</th>" in text
    assert "<td class=text>pods/dure</td><td>97.5 ± 0.1</td>" in text
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_a_group_of_groups_has_a_column_for_each_figure(tmp_path: Path) -> None:
    summary = {"seed 7": {"to_alone": {"hours": 90.5, "ratio": 0.25}, "note": "short"}}
    write_page(tmp_path / "page.html", Result("scale", ROWS, summary), [])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<th>hours</th><th>ratio</th>" in text
    assert "<td class=text>to_alone</td><td>90.5</td><td>0.25</td>" in text
    assert "<td class=text>note</td><td></td><td></td><td class=text>short</td>" in text


def test_the_plot_begins_where_the_policies_part() -> None:
    demand = np.arange(101.0)
    curves = {"best": np.minimum(demand, 98.0), "worse": np.minimum(demand, 80.0)}
    figure = _allocated("pods", curves, 98.5)
    first, last = figure.layout.xaxis.range
    assert (first, last) == (79, 100)
    assert figure.layout.yaxis.range[0] <= 79 < 98.5 < figure.layout.yaxis.range[1]
    alone = _allocated("pods", {"best": curves["best"]}, None)
    assert alone.layout.xaxis.range[0] < 90


def test_what_a_policy_is_behind_is_measured_from_the_best_at_each_point() -> None:
    figure = _behind("pods", {"a": np.array([0.0, 2.0, 3.0]), "b": np.array([0.0, 1.0, 5.0])})
    assert [list(curve.y) for curve in figure.data] == [[0.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
