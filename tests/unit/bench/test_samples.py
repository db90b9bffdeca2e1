"""The benchmark of the sample store on a handful of devices: both stores answer the same, or it fails."""

from __future__ import annotations

import json

from click.testing import CliRunner

from dure.bench.foresee_device import CALM_PER_S, RUSH_PER_S, rate_at
from dure.bench.samples import command, page
from dure.watch.foreign import DCGM


def test_a_small_run_reads_keeps_and_compares() -> None:
    found = CliRunner().invoke(command, ["--devices", "3", "--scrapes", "4", "--rounds", "1", "--json"])
    told = json.loads(found.stdout)
    kept = {row["policy"]: row for row in told["rows"] if row["step"] == "keep"}
    assert kept["dure"]["samples"] == kept["rows"]["samples"] == 3 * 4 * len(DCGM)
    assert kept["dure"]["found"] == 12
    assert told["summary"]["read_and_keep_per_minute"] > 0


def test_a_page_has_every_counter_of_every_device() -> None:
    lines = [line for line in page(range(5), 1, 0).splitlines() if not line.startswith("#")]
    assert len(lines) == len({line.rsplit(" ", 1)[0] for line in lines}) == 5 * len(DCGM)


def test_the_rush_of_the_device_comes_and_goes() -> None:
    assert (rate_at(0), rate_at(10), rate_at(20)) == (CALM_PER_S, RUSH_PER_S, CALM_PER_S)
