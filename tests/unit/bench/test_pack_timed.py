"""The timed packing benchmark: who comes also goes, moves keep to their budget, the fleet is drawn by the seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dure.bench.pack_fleet import Layout, covering, geometry, mig_ask
from dure.bench.pack_timed import Queue, Running, TimedCell, _drain, _part, timed_result
from dure.bench.pack_trace import TraceNode, TracePod
from dure.bench.progress import Journal
from dure.model.accelerator import SliceProfile
from dure.model.errors import InvalidInput
from dure.pack.ask import Ask
from dure.pack.codes import MPS, WHOLE

NODES = [TraceNode(f"n{i}", 64_000, 400_000, 4 if i % 2 else 2, "X") for i in range(6)]
PODS = [
    TracePod(f"p{i:03}", 4000 + 1000 * (i % 5), 8192, count, milli, (), i * 10, i * 10 + 100 + 37 * (i % 7))
    for i, (count, milli) in enumerate([(1, 1000), (1, 810), (1, 460), (4, 1000), (1, 190), (2, 1000)] * 40)
]


def measured(policies: str, resume: Path | None = None) -> Sequence[Mapping[str, Any]]:
    journal = Journal(resume, TimedCell, "small")
    return timed_result({"list": PODS}, NODES, policies, [1], journal, mig=False).rows


def test_every_policy_is_measured_over_time_and_only_ours_with_moves_moves() -> None:
    policies = ("dure", "dure+moves", "firstfit", "bestfit", "fgd")
    rows = measured(",".join(policies))
    assert tuple(row["policy"] for row in rows) == policies
    for row in rows:
        assert 0 < row["alloc_pct"] <= 100
        assert 0 <= row["stranded_pct"] <= 100 - row["alloc_pct"] + 1e-6
        assert row["moves"] == 0 or row["policy"] == "dure+moves"
        assert row["moves"] <= len(PODS) // 100


def test_an_unknown_policy_is_named_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match="no policy"):
        measured("tetris")


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    first = measured("bestfit", tmp_path / "cells")
    kept = (tmp_path / "cells").read_bytes()
    both = measured("bestfit,firstfit", tmp_path / "cells")
    assert both[0] == first[0], "even the seconds that it took: it was not run again"
    assert (tmp_path / "cells").read_bytes().startswith(kept)
    assert len((tmp_path / "cells").read_bytes().splitlines()) == 2


def test_a_large_fleet_is_a_twentieth_that_the_seed_draws_in_the_order_of_names() -> None:
    many = [TraceNode(f"n{i:03}", 1, 1, 1, "X") for i in range(400)]
    one, two = _part(many, 1), _part(many, 2)
    assert (len(one), one == _part(many, 1), one == two) == (20, True, False)
    assert one == sorted(one, key=lambda node: node.name)
    assert _part(NODES, 1) == NODES


def test_who_moved_leaves_from_where_it_is_now_and_the_fleet_ends_empty() -> None:
    layout = Layout(
        [TraceNode("a", 9000, 9000, 2, "X"), TraceNode("b", 9000, 9000, 1, "X")], PODS, "dure+moves", mig=False
    )
    fleet = Running(layout, moving=True)
    fleet.budget.placed = 10_000
    before = layout.grid.devs.copy()
    for ask in (
        Ask(1000, 10, 1, WHOLE),
        Ask(1000, 10, 1, 400, mode=MPS),
        Ask(1000, 10, 1, 500, mode=MPS),
        Ask(1000, 10, 1, 900, mode=MPS),
    ):
        fleet.enter(ask, float(len(fleet.ends)))
    while fleet.ends:
        fleet.leave()
    np.testing.assert_array_equal(layout.grid.devs, before)
    assert fleet.holders.count == 0


@pytest.mark.parametrize("policy", ["dure", "firstfit"])
def test_whoever_fits_is_let_in_however_many_kinds_have_waited_longer(policy: str) -> None:
    """More kinds than the index has rows wait for more than there is; the last two of them have room."""
    layout = Layout([TraceNode("a", 9000, 9000, 2, "X")], PODS, policy, mig=False)
    fleet, queue = Running(layout, moving=False), Queue()
    for cores in range(250):
        queue.add(Ask(10_000 + cores, 10, 1, WHOLE), 5.0)
    small = [Ask(1000, 10, 1, 600, mode=MPS), Ask(2000, 10, 1, 500, mode=MPS)]
    for ask in [*small, small[1], small[1]]:
        queue.add(ask, 5.0)
    _drain(queue, fleet, 100.0)
    assert [end for end, _, _ in fleet.ends] == [105.0] * 3
    assert [len(waiting) for ask, waiting in queue.kinds.items() if ask in small] == [1]
    assert queue.milli == 250 * WHOLE + 500


PROFILES = """gpu,profile,compute_slices,sm_fraction,memory_gib,memory_slices,starts,max_instances
A100-SXM4-80GB,1g.10gb,1,0.13,9.5,1,0|1|2|3|4|5|6,7
A100-SXM4-80GB,1g.20gb,1,0.13,19.5,2,0|2|4|6,4
A100-SXM4-80GB,2g.20gb,2,0.259,19.5,2,0|2|4,3
A100-SXM4-80GB,3g.40gb,3,0.389,39.5,4,0|4,2
A100-SXM4-80GB,4g.40gb,4,0.519,39.5,4,0,1
A100-SXM4-80GB,7g.80gb,7,0.907,79.0,8,0,1
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SliceProfile, ...]]:
    """NVIDIA's profiles of one class, as the public data has them."""
    (tmp_path / "mig-profiles").mkdir()
    (tmp_path / "mig-profiles" / "mig_profiles.csv").write_text(PROFILES)
    monkeypatch.setenv("DURE_DATA", str(tmp_path))
    for kept in (geometry, covering):
        kept.cache_clear()
    yield geometry("A100-SXM4-80GB").profiles
    for kept in (geometry, covering):
        kept.cache_clear()


def test_a_fraction_becomes_the_smallest_profile_with_its_memory_and_its_multiprocessors(
    table: tuple[SliceProfile, ...],
) -> None:
    wanted = {
        "1g.10gb": (1, 110, 125),
        "1g.20gb": (126, 130),
        "2g.20gb": (131, 160, 250),
        "3g.40gb": (251, 320, 389),
        "4g.40gb": (390, 470, 500),
        "7g.80gb": (501, 810, 907, 950, 999),
    }
    for name, fractions in wanted.items():
        assert {table[covering(milli)[0]].name for milli in fractions} == {name}
    whole = mig_ask(TracePod("p", 1000, 512, 2, WHOLE))
    assert (whole.pieces, whole.milli, whole.profile) == (2, WHOLE, -1)
    cut = mig_ask(TracePod("p", 1000, 512, 1, 320))
    assert (cut.pieces, cut.milli, cut.profile) == (1, 500, 3)
