"""The same brain beside and after the live one: shadow and what-if, through the command line."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Up

pytestmark = pytest.mark.xdist_group("up")


def test_a_shadow_is_switched_on_reports_and_is_switched_off(up: Up) -> None:
    started = up.dure("shadow", "regret", "--json")
    assert started.returncode == 0, started.stderr
    assert json.loads(started.stdout)["policy"]["algorithm"] == "regret"
    told = up.dure("shadow")
    assert "nothing is acted on" in told.stdout
    assert "another place" in told.stdout
    assert up.dure("shadow", "--stop").returncode == 0
    off = up.dure("shadow")
    assert off.returncode != 0
    assert "dure shadow POLICY" in off.stderr


def test_a_shadow_that_does_not_exist_names_those_that_do(up: Up) -> None:
    refused = up.dure("shadow", "fortune")
    assert refused.returncode != 0
    assert "rolling" in refused.stderr


def test_what_if_replays_what_was_recorded_and_only_the_change_differs(up: Up) -> None:
    name = json.loads(up.dure("get", "clusters", "-o", "json").stdout)[0]["name"]
    found = up.dure("whatif", "--set", f"{name}.price=3x", "--since", "2h", "--json")
    assert found.returncode == 0, found.stderr
    pair = json.loads(found.stdout)
    assert pair["before"]["submitted"] == pair["after"]["submitted"] > 0
    same = json.loads(up.dure("whatif", "--set", f"{name}.price=1x", "--since", "2h", "--json").stdout)
    assert same["before"]["cost_micros"] == same["after"]["cost_micros"]


def test_what_if_without_a_change_says_what_may_be_changed(up: Up) -> None:
    refused = up.dure("whatif")
    assert refused.returncode != 0
    assert "--remove-cluster" in refused.stderr
