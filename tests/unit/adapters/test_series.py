"""Prices and carbon from files and HTTP: unknown stays unknown, old figures serve for a while, errors are clear."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import msgspec
import pytest

from dure.adapters.carbon import SeriesCarbon
from dure.adapters.clock import VirtualClock
from dure.adapters.prices import SeriesPrices
from dure.adapters.series import RETRY_S, Source
from dure.embedded.sources import carbon_of as fleet_carbon
from dure.files import read_text
from dure.files.builtin import demo_fleet
from dure.files.dump import to_yaml
from dure.model.errors import InvalidInput, NotFound
from dure.model.fleet import SeriesSource
from dure.model.tariff import Capacity
from dure.model.units import MICROS

HOUR = 3600
CSV = "datetime_utc,KR,DE\n1970-01-01 00:00:00,400,\n1970-01-01 01:00:00,n/a,0\n1970-01-01 02:00:00,420,300\n"


def carbon_of(path: Path, clock: VirtualClock | None = None) -> SeriesCarbon:
    return SeriesCarbon(Source(str(path), clock or VirtualClock(0.0)), ("KR", "DE", "XX"))


@pytest.mark.parametrize("name", ["c.csv", "c.csv.gz"])
def test_blank_and_unreadable_cells_are_unknown_and_a_real_zero_stays(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(CSV.encode()) if name.endswith("gz") else CSV.encode())
    found = {series.grid: series.g_per_kwh for series in carbon_of(file).fetch_carbon(0, 4 * HOUR)}
    assert found == {"KR": (400.0, None, 420.0, None), "DE": (None, 0.0, 300.0, None), "XX": (None,) * 4}


def test_json_over_http_is_read_once_until_it_is_no_longer_fresh() -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return httpx.Response(200, json={"data": [{"datetime": "1970-01-01T00:00:00Z", "KR": 410}]})

    clock = VirtualClock(0.0)
    client = httpx.Client(transport=httpx.MockTransport(answer))
    port = SeriesCarbon(Source("http://127.0.0.1/carbon", clock, fresh_s=600, client=client), ("KR",))
    assert port.fetch_carbon(0, HOUR)[0].g_per_kwh == (410.0,)
    port.fetch_carbon(0, HOUR)
    assert len(calls) == 1
    clock.advance(700.0)
    port.fetch_carbon(0, HOUR)
    assert len(calls) == 2


def test_old_figures_serve_while_the_source_is_away_and_then_become_unknown() -> None:
    up = [True]

    def answer(request: httpx.Request) -> httpx.Response:
        if not up[0]:
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, json=[{"time": 0, "KR": 410}])

    clock = VirtualClock(0.0)
    client = httpx.Client(transport=httpx.MockTransport(answer))
    source = Source("http://127.0.0.1/carbon", clock, fresh_s=60, stale_s=1000, client=client)
    port = SeriesCarbon(source, ("KR",))
    port.fetch_carbon(0, HOUR)
    up[0] = False
    clock.advance(900.0)
    assert port.fetch_carbon(0, HOUR)[0].g_per_kwh == (410.0,)
    clock.advance(2000.0)
    assert port.fetch_carbon(0, HOUR)[0].g_per_kwh == (None,)


def test_a_source_that_never_answered_is_unknown_and_is_not_asked_in_every_turn() -> None:
    calls = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(request)
        return httpx.Response(500)

    clock = VirtualClock(0.0)
    client = httpx.Client(transport=httpx.MockTransport(answer))
    source = Source("http://127.0.0.1/carbon", clock, client=client)
    port = SeriesCarbon(source, ("KR",))
    for _ in range(5):
        assert port.fetch_carbon(0, HOUR)[0].g_per_kwh == (None,)
    assert len(calls) == 1
    clock.advance(RETRY_S)
    assert source.table() is None
    assert len(calls) == 2


class _Figures(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": [{"time": 0, "kr": 410}, {"time": HOUR, "kr": None}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


def test_a_fleet_file_names_a_real_source_on_loopback_and_the_plane_reads_it() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Figures)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        named = SeriesSource(f"http://127.0.0.1:{server.server_port}/v1/carbon", columns={"KR": "kr"}, local=True)
        fleet = msgspec.structs.replace(demo_fleet(), carbon_source=named)
        found = {
            one.grid: one.g_per_kwh for one in fleet_carbon(fleet, VirtualClock(0.0), 1).fetch_carbon(0, 2 * HOUR)
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert found["KR"] == (410.0, None)
    assert all(value is None for grid, values in found.items() if grid != "KR" for value in values)


def test_the_sources_of_a_fleet_file_are_read_and_written_back() -> None:
    text = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: real}
spec:
  carbonSource: {from: grids.csv, columns: {KR: kr}, fresh: 30min, stale: 2h}
  priceSource: {from: "http://127.0.0.1:9/prices", capacity: on-demand}
  clusters:
    - name: a
      grid: KR
      pools: [{name: p, class: t4, nodes: 1, price: {onDemand: 900/h}}]
"""
    fleet = read_text(text, "fleet.yaml").fleets[0]
    assert fleet.carbon_source == SeriesSource("grids.csv", {"KR": "kr"}, 1800.0, 7200.0)
    assert fleet.price_source == SeriesSource("http://127.0.0.1:9/prices", capacity=Capacity.ON_DEMAND)
    assert read_text(to_yaml([fleet]), "again.yaml").fleets[0] == fleet


@pytest.mark.parametrize(
    ("name", "body", "error", "words"),
    [
        ("a.csv", "KR,DE\n1,2\n", InvalidInput, "no column with the time"),
        ("a.csv", "time,KR\nyesterday,2\n", InvalidInput, "a time is not readable"),
        ("a.csv", "time,KR\n", InvalidInput, "has no rows"),
        ("a.json", "{}", InvalidInput, "holds no list of objects"),
        ("a.json", "{", InvalidInput, "is not JSON"),
        ("a.csv.gz", "plain", InvalidInput, "is not a gzip file"),
    ],
)
def test_bad_files_say_what_is_wrong(
    tmp_path: Path, name: str, body: str, error: type[Exception], words: str
) -> None:
    file = tmp_path / name
    file.write_text(body, encoding="utf-8")
    with pytest.raises(error, match=words):
        Source(str(file), VirtualClock(0.0)).table()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(NotFound, match=r"no such file: nowhere\.csv"):
        Source("nowhere.csv", VirtualClock(0.0)).table()


def test_a_price_series_is_laid_over_the_tariffs_and_the_rest_is_kept(tmp_path: Path) -> None:
    fleet = demo_fleet()
    own = sorted(
        (pool.tariff for cluster in fleet.clusters for pool in cluster.pools), key=lambda one: (one.cluster, one.pool)
    )
    spot = next(tariff for tariff in own if tariff.spot is not None)
    file = tmp_path / "prices.csv"
    file.write_text(f"time,{spot.cluster}/{spot.pool}\n0,500\n{HOUR},\n", encoding="utf-8")
    port = SeriesPrices(Source(str(file), VirtualClock(0.0)), fleet, stale_s=3 * HOUR)
    laid = {(one.cluster, one.pool): one for one in port.fetch_tariffs(2 * HOUR)}
    found = laid[spot.cluster, spot.pool].spot
    assert found is not None
    assert found.values == (500 * MICROS,)
    assert port.fetch_tariffs(9 * HOUR) == tuple(own)


@pytest.mark.parametrize(
    "body",
    [
        b"time,a\n2026-01-01T00:00:00Z,1,2,3\n",
        b"time,a\nnan,1\n",
        b"time,a\ninf,1\n",
        b"time,a\n2026-01-01T00:00:00Z,1\rx\n",
        b"time,a\n1e400,1\n",
    ],
)
def test_a_strange_table_is_read_or_refused_by_name(tmp_path: Path, body: bytes) -> None:
    from contextlib import suppress

    from dure.adapters.series import _parsed

    with suppress(InvalidInput):
        table = _parsed("t.csv", body, 0.0)
        assert table.columns.keys() == {"a"}
