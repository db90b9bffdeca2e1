"""What is written is read back as the very same struct."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dure.files import read_text
from dure.files.builtin import catalogue, demo_fleet
from dure.files.dump import Kinded, dump_yaml, to_dict, to_yaml
from dure.files.kind import KINDS
from dure.files.reading import Reading
from dure.files.yaml import parse
from tests.unit.files.strategies import fleets, policies, tenants, workloads

# Shrinking a whole fleet takes minutes and the first failure already names the key.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
THOROUGH = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=PHASES)


def read_back(text: str, kind: str) -> object:
    """Read without the checks of meaning: random names refer to nothing."""
    (document,) = parse(text, "text")
    into = Reading("text", document)
    made = KINDS[kind].read(document, "", into)
    assert into.problems == []
    return made


@THOROUGH
@given(workloads() | tenants | policies)
def test_small_kinds_survive_a_round_trip(value: Kinded) -> None:
    assert read_back(to_yaml([value]), type(value).__name__) == value


@THOROUGH
@given(fleets())
def test_fleets_survive_a_round_trip(value: Kinded) -> None:
    assert read_back(to_yaml([value]), "Fleet") == value


def test_the_demo_fleet_survives_with_all_checks() -> None:
    assert read_text(to_yaml([demo_fleet()])).fleets == (demo_fleet(),)


@pytest.mark.parametrize("name", sorted(catalogue().templates))
def test_templates_survive_with_all_checks(name: str) -> None:
    template = catalogue().templates[name]
    assert read_text(json.dumps(to_dict(template))).workloads == (template,)


def test_prices_by_the_hour_are_written_in_local_time_and_short() -> None:
    document = to_dict(demo_fleet())
    price = document["spec"]["clusters"][0]["pools"][0]["price"]
    assert price["owned"] == "2100/h"
    assert price["electricity"]["weekdays"]["10-12"] == "212/kWh"
    assert price["electricity"]["sunday"] == "104/kWh"


@given(st.recursive(st.text(max_size=10) | st.integers(-9, 9) | st.booleans() | st.none(), st.lists, max_leaves=5))
def test_plain_data_survives_yaml(data: object) -> None:
    text = dump_yaml([{"data": data}])
    (value,) = parse(text, "text")
    assert value.plain() == {"data": data}
