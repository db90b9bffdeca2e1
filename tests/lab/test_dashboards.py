"""Every panel of every board, asked of a real Prometheus that the demo fleet has filled: none is empty."""

from __future__ import annotations

import json
import math
import time

import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import arrivals, small_services, standing
from dure.adapters.metrics.exposition import Reader
from dure.adapters.metrics.prometheus import PrometheusMetrics
from dure.api.metrics import Metrics
from dure.api.pulse import Pulse
from dure.embedded.sharing import SharedFleet
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.manifest.render import render
from dure.manifest.render.panels import BOARDS, Board, Panel
from dure.manifest.render.setting import Setting
from lab.prometheus import Prometheus
from tests.fixtures.exporters import dcgm_page, vllm_page

pytestmark = pytest.mark.lab
# Long enough for the weights of placement, which are learnt by the hour.
MINUTES = 75
PANELS = [(board, panel) for board in BOARDS for panel in board.panels]


@pytest.fixture(scope="module")
def filled(prometheus: Prometheus) -> Prometheus:
    """The demo fleet lived through the last hour and a bit, scraped once a minute."""
    fleet, known = demo_fleet(), catalogue()
    begin_s = float(int(time.time()) - MINUTES * 60)
    clock, store = VirtualClock(begin_s), MemoryStore()
    world = EmbeddedWorld(fleet, known, store, clock, seed=1, idle_s=60.0)
    world.submit([*standing(fleet, known), *small_services(fleet, known)])
    coming = arrivals(fleet, known, 1, begin_s, begin_s + MINUTES * 60)
    shares = SharedFleet(store, clock.now, clock.now)
    own = Metrics(Pulse(world.desk, MemoryMetrics(), timer=clock.now), store, shares)
    reader, port = Reader(), PrometheusMetrics(prometheus.url)
    for minute in range(MINUTES):
        now_s = clock.now()
        world.submit([workload for at_s, workload in coming if now_s - 60 < at_s <= now_s])
        world.step()
        world.step()
        if minute % 25 == 5:
            shares.turn()
        page = own.page().decode() + dcgm_page(store.list_reports(), known) + vllm_page(store.list_workloads())
        port.write_samples(reader.read(page, now_s))
        clock.advance(begin_s + (minute + 1) * 60)
    port.close()
    return prometheus


def asked(prometheus: Prometheus, expr: str) -> list[float]:
    for word, value in (("$__rate_interval", "5m"), ("$cluster", ".*"), ("$namespace", ".*"), ("$workload", ".+")):
        expr = expr.replace(word, value)
    now_s = time.time()
    data = prometheus.get(
        "/api/v1/query_range", query=expr, start=f"{now_s - 1800:.0f}", end=f"{now_s - 300:.0f}", step="60"
    )
    return [float(value) for series in data["result"] for _, value in series["values"]]


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{b.name}: {p.title}" for b, p in PANELS])
def test_no_panel_is_empty(filled: Prometheus, board: Board, panel: Panel) -> None:
    found = asked(filled, panel.expr)
    assert len(found) >= 10
    assert any(math.isfinite(value) for value in found)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_every_board_can_be_narrowed_by_values_that_exist(filled: Prometheus, board: Board) -> None:
    now_s = time.time()
    times = {"start": f"{now_s - 3600:.0f}", "end": f"{now_s:.0f}"}
    found = filled.get(f"/api/v1/label/{board.variable}/values", **{"match[]": board.metric, **times})
    assert len(found) >= 1


def test_a_board_is_what_grafana_reads_with_ids_sources_and_no_overlap() -> None:
    fleet, known = demo_fleet(), catalogue()
    for spec in fleet.clusters:
        setting = Setting(spec, {pool.class_name: known.accelerator(pool.class_name) for pool in spec.pools})
        maps = [one for one in render(setting, ("monitoring",))["monitoring"] if one["kind"] == "ConfigMap"]
        boards = [json.loads(text) for one in maps for name, text in one.get("data", {}).items() if ".json" in name]
        assert len({board["uid"] for board in boards}) == len(boards) >= 3
        for board in boards:
            places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in board["panels"]]
            assert len(set(places)) == len(places)
            assert {target["datasource"]["uid"] for one in board["panels"] for target in one["targets"]} == {
                "${datasource}"
            }


def test_the_five_panels_that_people_ask_for_first_are_on_the_first_board() -> None:
    titles = {panel.title for panel in BOARDS[0].panels}
    assert {"Utilisation", "Memory", "Scaling events", "Node provisioning", "Cost"} <= titles
