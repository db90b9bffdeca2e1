"""Prices and carbon from files and HTTP: unknown stays unknown, old figures serve for a while, errors are clear."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import pytest

from dure.adapters.carbon import SeriesCarbon
from dure.adapters.clock import VirtualClock
from dure.adapters.prices import SeriesPrices
from dure.adapters.series import Source
from dure.files.builtin import demo_fleet
from dure.model.errors import InvalidInput, NotFound, Temporary
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


def test_a_source_that_never_answered_is_a_temporary_error() -> None:
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(500)))
    with pytest.raises(Temporary, match="answered 500"):
        Source("http://127.0.0.1/carbon", VirtualClock(0.0), client=client).table()


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
