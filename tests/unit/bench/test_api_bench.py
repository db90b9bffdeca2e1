"""`dure bench api` measures both sides and prints one object."""

from __future__ import annotations

import json

from click.testing import CliRunner

from dure.bench.api import command


def test_it_prints_the_rounds_of_both_sides_and_their_ratio() -> None:
    done = CliRunner().invoke(command, ["--requests", "3", "--rounds", "2", "--json"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert {(row["policy"], row["round"]) for row in result["rows"]} == {
        (p, r) for p in ("bare", "dure") for r in (0, 1)
    }
    assert result["summary"]["ratio"] > 0
