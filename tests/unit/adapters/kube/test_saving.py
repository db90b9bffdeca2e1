"""What pods say of their checkpoints: the oldest of a gang is safe, and work that is done again counts once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kube.exposition import samples_of
from dure.adapters.kube.objects import KubePod, Meta
from dure.adapters.kube.saving import Saved, said_by, saved, saved_of, shown_by


def pod(**annotations: str) -> KubePod:
    said = {f"dure.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return KubePod(metadata=Meta(annotations=said))


def test_the_gauge_is_read_and_of_several_ranks_the_oldest_is_safe() -> None:
    assert shown_by(samples_of("checkpoint_timestamp_seconds 1700.5\n"), pod()) == 1700.5
    ranks = 'checkpoint_timestamp_seconds{rank="0"} 40\ncheckpoint_timestamp_seconds{rank="1"} 30\n'
    assert shown_by(samples_of(ranks), pod()) == 30.0


def test_a_gauge_of_another_name_is_read_where_the_pod_says_so() -> None:
    text = "trainer_last_save 12\ncheckpoint_timestamp_seconds 99\n"
    assert shown_by(samples_of(text), pod(checkpoint_metric="trainer_last_save")) == 12.0


@pytest.mark.parametrize("text", ["", "up 1\n", "no { metrics", "checkpoint_timestamp_seconds NaN\n"])
def test_what_cannot_be_read_says_nothing(text: str) -> None:
    assert shown_by(samples_of(text), pod()) is None


def test_the_annotation_is_read_and_no_other_text() -> None:
    assert said_by(pod(checkpointed="1700")) == 1700.0
    assert [said_by(pod()), said_by(pod(checkpointed="soon")), said_by(pod(checkpointed="-1"))] == [None] * 3


def test_nothing_said_leaves_the_status_as_it_is() -> None:
    assert saved({}, 1, [], 100.0, 200.0) == {}


def test_none_yet_is_known_and_a_checkpoint_from_before_the_start_is_none_of_this_home() -> None:
    for said in (0.0, 90.0):
        assert saved_of(saved({}, 1, [said], 100.0, 200.0), 1) == Saved(0.0, 0.0)


def test_a_gang_is_safe_up_to_the_member_that_saved_first() -> None:
    assert saved_of(saved({}, 1, [180.0, 150.0], 100.0, 200.0), 1) == Saved(150.0, 50.0)


def test_a_clock_that_is_ahead_saves_nothing_of_the_future() -> None:
    assert saved_of(saved({}, 1, [900.0], 100.0, 200.0), 1) == Saved(200.0, 100.0)


def test_a_new_generation_begins_anew() -> None:
    first = saved({}, 1, [150.0], 100.0, 160.0)
    assert saved_of(first, 2) is None
    assert saved_of(saved(first, 2, [0.0], 300.0, 310.0), 2) == Saved(0.0, 0.0)


def test_work_that_a_restart_destroyed_counts_once_it_is_done_again() -> None:
    status = saved({}, 1, [150.0], 100.0, 160.0)
    status |= saved(status, 1, [0.0], 190.0, 200.0)
    assert saved_of(status, 1) == Saved(150.0, 50.0)
    status |= saved(status, 1, [220.0], 190.0, 230.0)
    assert saved_of(status, 1) == Saved(220.0, 50.0 + 30.0), "from 150 to 190 it was gone"


@given(st.lists(st.tuples(st.floats(0, 50), st.booleans(), st.booleans()), max_size=30))
def test_safe_work_never_falls_and_never_exceeds_the_time_that_it_ran(steps: list[tuple[float, bool, bool]]) -> None:
    """In each step it runs for a while, then may save, then may begin again; a reader looks after each."""
    status: dict[str, Any] = {}
    now_s = begun_s = 100.0
    shown_s, safe_s, ran_s = 0.0, 0.0, 0.0
    for lasted_s, saves, restarts in steps:
        now_s, ran_s = now_s + lasted_s, ran_s + lasted_s
        shown_s = now_s if saves else shown_s
        status |= saved(status, 1, [shown_s], begun_s, now_s)
        found = saved_of(status, 1)
        assert found is not None
        assert safe_s <= found.worked_s <= ran_s + 1e-6
        safe_s = found.worked_s
        if restarts:
            begun_s, shown_s = now_s, 0.0
            ran_s = safe_s
