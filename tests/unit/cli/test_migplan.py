"""`dure advise mig`: few devices, every rate reached, and clear words where nothing will do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.cli.advise import command
from dure.manifest.migplan import STARTS, Seat, Service, fewest, fits, plan
from dure.model.errors import InvalidInput

TEXT = """
services:
  - name: ranker
    rate: 500
    latency_ms: 40
    measured:
      - {slices: 1, rate: 900, latency_ms: 41}
      - {slices: 1, rate: 120, latency_ms: 40}
      - {slices: 3, rate: 410, latency_ms: 19}
  - {name: search, rate: 300, latency_ms: 60, measured: [{slices: 4, rate: 330, latency_ms: 30}]}
"""


def ask(tmp_path: Path, text: str, *more: str) -> str:
    path = tmp_path / "services.yaml"
    path.write_text(text)
    return CliRunner().invoke(command, ["mig", "-f", str(path), *more], catch_exceptions=False).output


def test_instances_are_shared_out_over_few_devices(tmp_path: Path) -> None:
    assert ask(tmp_path, TEXT).splitlines() == [
        "device  cut  instances",
        "     1  4+3  search 4g, ranker 3g",
        "     2  1    ranker 1g",
        "2 devices, 8 of 14 slices used",
    ]
    assert json.loads(ask(tmp_path, TEXT, "--json"))[1] == [{"service": "ranker", "slices": 1}]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("latency_ms: 60", "latency_ms: 29", "within 29 ms: the quickest took 30 ms"),
        ("rate: 300", "rate: -1", "a rate of -1"),
        ("rate: 300", "rate: 1.0e+6", "1e.06 a second would take 12121 slices"),
        ("slices: 4", "slices: 5", "nothing of 5 slices"),
        ("name: search", "name: ranker", "a name of its own"),
        ("name: search", "nam: search", "not a file of services"),
        ("[{slices: 4, rate: 330, latency_ms: 30}]", "[]", "nothing was measured"),
    ],
)
def test_a_file_that_cannot_be_planned_is_refused_with_the_reason(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        ask(tmp_path, TEXT.replace(before, after))


def test_three_and_three_leave_no_room_for_one() -> None:
    assert fits((3, 3))
    assert not fits((3, 3, 1))
    assert fits((4, 2, 1))
    assert fits((2, 2, 2, 1))
    assert not fits((4, 4))


def test_the_fewest_slices_reach_the_rate() -> None:
    assert fewest(Service("a", 100.0, {1: 10.0, 2: 30.0, 7: 90.0})) == (2, 2, 2, 1)
    assert fewest(Service("a", 30.0, {1: 10.0, 2: 30.0})) == (2,)
    with pytest.raises(ValueError, match="no instance answers a in time"):
        fewest(Service("a", 1.0, {}))


@settings(max_examples=30)
@given(
    services=st.lists(
        st.tuples(
            st.floats(1.0, 300.0), st.dictionaries(st.sampled_from(sorted(STARTS)), st.floats(5.0, 200.0), min_size=1)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_rate_is_reached_on_legal_devices(services: list[tuple[float, dict[int, float]]]) -> None:
    asked = [Service(f"s{at}", rate, rates) for at, (rate, rates) in enumerate(services)]
    found = plan(asked)
    assert all(fits([seat.slices for seat in held]) for held in found)
    for one in asked:
        seats = [seat for held in found for seat in held if seat.service == one.name]
        assert all(isinstance(seat, Seat) for seat in seats)
        assert sum(one.rates[seat.slices] for seat in seats) >= one.rate * (1 - 1e-12)
