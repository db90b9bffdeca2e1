"""How a range of moments is told."""

from __future__ import annotations

from dure.cli.output import moment
from dure.cli.why import expected

NOW_S = 1_000_000.0


def test_what_is_still_to_come_is_not_told_as_past() -> None:
    """The range was made some moments ago, and its early end has passed since."""
    early, late = NOW_S - 300, NOW_S + 300
    said = {"lowest_s": early, "low_s": early, "middle_s": NOW_S + 60, "high_s": late, "highest_s": late}
    both = f"{moment(NOW_S, NOW_S)} to {moment(late, NOW_S)}"
    told = f"expected finish {moment(NOW_S + 60, NOW_S)}; one in two {both}; nine in ten {both}"
    assert expected("finish", said, NOW_S) == told
