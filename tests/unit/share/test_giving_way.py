"""Who gives way to whom in mid-piece: by the policy's own order, and nobody for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.share.giving_way import PATIENCE, WORTH_MS, Piece, change, goes_on
from dure.share.interference import App
from dure.share.policies import POLICIES
from dure.share.squad import Waiting, ordered

JCT = POLICIES["jct"]


def one(name: str, left_ms: float, **more: float) -> Waiting:
    return Waiting(name, App(name), (left_ms,), left_ms, 0.0, more.get("target_ms", 1e6), reserved_parts=0)


def piece(name: str, rest_ms: float, *, stood_ms: float = 0.0) -> Piece:
    return Piece(one(name, rest_ms), rest_ms, rest_ms, stood_ms)


LONG = piece("long", 40.0)


@pytest.mark.parametrize(
    ("waiting", "running", "expected"),
    [
        ([one("short", 3.0)], [LONG], "long"),
        ([one("longer", 60.0)], [LONG], None),
        ([one("short", 3.0)], [LONG, piece("longest", 80.0)], "longest"),
        ([one("short", 3.0)], [LONG, piece("shorter", 2.0)], "long"),
        ([one("longer", 60.0), one("short", 3.0)], [LONG], "long"),
        ([], [LONG], None),
        ([one("short", 3.0)], [], None),
        ([one("short", 0.1)], [piece("ending", WORTH_MS / 2.0)], None),
        ([one("short", 3.0)], [piece("weary", 40.0, stood_ms=PATIENCE * 40.0)], None),
    ],
)
def test_one_at_work_gives_way_to_one_that_the_policy_puts_first(
    waiting: list[Waiting], running: list[Piece], expected: str | None
) -> None:
    found = change(waiting, running, JCT)
    assert (found.gives_way if found else None) == expected
    assert found is None or found.comes == "short"


def test_a_reserved_tenant_keeps_its_place() -> None:
    kept = Piece(Waiting("kept", App("kept"), (40.0,), 40.0, 0.0, 1e6, reserved_parts=1), 40.0, 40.0)
    assert change([one("short", 3.0)], [kept], JCT) is None


def test_whoever_is_next_comes_forward_and_the_weary_before_all() -> None:
    behind = [piece("long", 40.0), piece("middle", 20.0)]
    assert goes_on([one("short", 3.0)], behind, JCT) is None
    assert goes_on([one("longest", 90.0)], behind, JCT) == "middle"
    assert goes_on([], behind, JCT) == "middle"
    assert goes_on([one("short", 3.0)], [*behind, piece("weary", 50.0, stood_ms=200.0)], JCT) == "weary"
    assert goes_on([one("short", 3.0)], [], JCT) is None


times = st.floats(0.5, 500.0)


@given(
    st.sampled_from(sorted(POLICIES)),
    st.dictionaries(st.sampled_from("abc"), times, max_size=3),
    st.dictionaries(st.sampled_from("xyz"), times, max_size=3),
    times,
)
def test_nobody_gives_way_to_one_behind_it_under_any_policy(
    policy: str, waits: dict[str, float], runs: dict[str, float], target_ms: float
) -> None:
    rank = POLICIES[policy]
    waiting = [one(name, ms, target_ms=target_ms) for name, ms in waits.items()]
    running = [piece(name, ms) for name, ms in runs.items()]
    found = change(waiting, running, rank)
    if found is None:
        return
    order = [w.tenant for w in ordered([*waiting, *(p.owner for p in running)], rank)]
    assert order.index(found.comes) < order.index(found.gives_way)
    assert found.comes in waits
    assert runs[found.gives_way] >= WORTH_MS
