"""A surge on a served model: the real autoscaler adds a replica and takes it away, and no request fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.scaling import world

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]


def test_a_surge_gets_a_second_replica_and_no_request_is_lost_when_it_goes(tmp_path: Path) -> None:
    """The short version of `make requests`, which asks 20,000 times."""
    with world(tmp_path, hold_s=16) as made:
        found = made.round(least=600)
    print(found)
    assert found["failed"] == 0, found
    assert found["requests"] >= 600
    late = {name: 1.0 - found[f"{name}_in_time"] for name in ("alone", "both")}
    assert late["both"] < late["alone"] / 2.0, "the second replica is what helps"
    assert found["while_leaving"] > 0, "somebody asked while the replica went"
