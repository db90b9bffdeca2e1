"""One suite for every MetricsPort that can be written to: in memory and in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.metrics import SqliteMetrics
from dure.adapters.metrics.sqlite import MOST_POINTS
from dure.model.errors import Permanent
from dure.model.sample import Sample
from dure.model.units import DAY_S, HOUR_S
from dure.ports import MetricsPort


@pytest.fixture(params=["memory", "sqlite"])
def metrics(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetricsPort]:
    if request.param == "memory":
        yield MemoryMetrics()
        return
    found = SqliteMetrics(tmp_path / "metrics.db")
    yield found
    found.close()


def sample(at_s: float, value: float, pool: str = "a", name: str = "dure_use") -> Sample:
    return Sample(name=name, labels={"pool": pool}, at_s=at_s, value=value)


def test_samples_come_back_by_series_and_time_within_the_window(metrics: MetricsPort) -> None:
    metrics.write_samples([sample(1, 10, "b"), sample(1, 20, "a"), sample(2, 30, "a"), sample(9, 40, "a")])
    metrics.write_samples([sample(2, 50, name="other")])
    found = metrics.fetch_samples("dure_use", 1, 5)
    assert [(one.labels["pool"], one.value) for one in found] == [("a", 20), ("a", 30), ("b", 10)]
    assert metrics.fetch_samples("nobody", 0, 100) == ()


def test_a_sample_that_is_not_newer_than_its_series_is_dropped(metrics: MetricsPort) -> None:
    for at_s, value in ((1.0, 1.0), (2.0, 2.0), (2.0, 7.0), (3.0, 3.0), (1.0, 8.0)):
        metrics.write_samples([sample(at_s, value)])
    assert [one.value for one in metrics.fetch_samples("dure_use", 0, 100)] == [1.0, 2.0, 3.0]


def test_the_past_is_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteMetrics(tmp_path / "metrics.db")
    first.write_samples([sample(10, 1), sample(20, 2, "b")])
    first.close()
    second = SqliteMetrics(tmp_path / "metrics.db")
    second.write_samples([sample(10, 9), sample(30, 3)])
    assert [(one.labels["pool"], one.value) for one in second.fetch_samples("dure_use", 0, 99)] == [
        ("a", 1), ("a", 3), ("b", 2),
    ]  # fmt: skip
    second.close()


def test_a_year_is_answered_by_means_and_today_by_every_sample(tmp_path: Path) -> None:
    metrics = SqliteMetrics(tmp_path / "metrics.db")
    days, begin_s = 60, 1_000 * DAY_S
    for day in range(days):
        metrics.write_samples(sample(begin_s + day * DAY_S + minute * 60, minute % 60) for minute in range(24 * 60))
    end_s = begin_s + days * DAY_S
    today = metrics.fetch_samples("dure_use", end_s - HOUR_S, end_s)
    assert [one.value for one in today] == list(range(60))
    month = metrics.fetch_samples("dure_use", begin_s, end_s)
    assert len(month) < MOST_POINTS
    assert {one.value for one in month if one.at_s < end_s - DAY_S} == {29.5}
    week = metrics.fetch_samples("dure_use", end_s - 5 * DAY_S, end_s)
    assert len(week) > 4 * 288
    assert sum(one.value for one in week[:288]) / 288 == pytest.approx(29.5)
    metrics.close()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4000), st.integers(-9, 9)), max_size=60))
def test_file_and_memory_agree_on_short_times(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, int]]
) -> None:
    kept = MemoryMetrics()
    metrics = SqliteMetrics(tmp_path_factory.mktemp("metrics") / "metrics.db")
    for pool, minute, value in sorted(drawn, key=lambda one: one[1]):
        for port in (kept, metrics):
            port.write_samples([sample(minute * 60.0, value, pool)])
    newest_s = max((minute * 60.0 for _, minute, _ in drawn), default=0.0)
    since_s = max(0.0, newest_s - DAY_S)
    assert metrics.fetch_samples("dure_use", since_s, newest_s) == kept.fetch_samples("dure_use", since_s, newest_s)
    metrics.close()


def test_a_file_that_is_no_store_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "metrics.db").write_bytes(b"not a database, and long enough to be looked at" * 40)
    with pytest.raises(Permanent, match="cannot be read") as refused:
        SqliteMetrics(tmp_path / "metrics.db")
    assert "Move the file away" in refused.value.remedy
