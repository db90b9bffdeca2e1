"""Modelled engines behind the front: everybody is answered, whichever way they came."""

from __future__ import annotations

import asyncio

from click.testing import CliRunner

from dure.cli.demo import command
from dure.embedded.engines import Crowd, show


def test_every_request_is_answered_both_ways() -> None:
    in_turn, through = asyncio.run(show(Crowd(requests=12, per_s=200.0, engines=2)))
    assert len(in_turn.waits_s) == len(through.waits_s) == 12


def test_the_same_seed_asks_the_same() -> None:
    assert Crowd(seed=3).asked() == Crowd(seed=3).asked()
    assert Crowd(seed=3).asked() != Crowd(seed=4).asked()


def test_the_command_shows_both_ways() -> None:
    shown = CliRunner().invoke(command, ["front", "--requests", "8", "--rate", "200", "--engines", "2"])
    assert shown.exit_code == 0
    assert "in turn" in shown.output
    assert "dure front" in shown.output
