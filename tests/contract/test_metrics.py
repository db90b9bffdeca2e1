"""One suite for every MetricsPort: in memory, in a file, and on a real Prometheus."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dure.adapters.memory.metrics import MemoryMetrics
from dure.adapters.metrics import SqliteMetrics
from dure.adapters.metrics.prometheus import PrometheusMetrics
from dure.adapters.metrics.sqlite import MOST_POINTS
from dure.model.errors import InvalidInput, Permanent, Temporary
from dure.model.sample import Sample
from dure.model.units import DAY_S, HOUR_S
from dure.ports import MetricsPort
from lab.prometheus import Prometheus

# Memory keeps a bounded ring of samples and no means.
WITH_MEANS = ("sqlite", pytest.param("prometheus", marks=pytest.mark.lab))


@pytest.fixture(params=["memory", *WITH_MEANS])
def metrics(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetricsPort]:
    if request.param == "memory":
        yield MemoryMetrics()
        return
    if request.param == "sqlite":
        found: SqliteMetrics | PrometheusMetrics = SqliteMetrics(tmp_path / "metrics.db")
    else:
        found = PrometheusMetrics(request.getfixturevalue("prometheus").url)
    yield found
    found.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of its own for every test: a real server remembers those before."""
    return "dure_" + "".join(letter if letter.isalnum() else "_" for letter in request.node.name)


@pytest.fixture
def now_s() -> float:
    """A moment that a real server takes samples of."""
    return float(int(time.time()) - 600)


def sample(at_s: float, value: float, pool: str = "a", name: str = "dure_use") -> Sample:
    return Sample(name=name, labels={"pool": pool}, at_s=at_s, value=value)


def test_samples_come_back_by_series_and_time_within_the_window(
    metrics: MetricsPort, name: str, now_s: float
) -> None:
    written = [(1, 10, "b"), (1, 20, "a"), (2, 30, "a"), (9, 40, "a")]
    metrics.write_samples([sample(now_s + at_s, value, pool, name) for at_s, value, pool in written])
    metrics.write_samples([sample(now_s + 2, 50, name=f"{name}_other")])
    found = metrics.fetch_samples(name, now_s + 1, now_s + 5)
    assert [(one.labels, one.at_s - now_s, one.value) for one in found] == [
        ({"pool": "a"}, 1, 20), ({"pool": "a"}, 2, 30), ({"pool": "b"}, 1, 10),
    ]  # fmt: skip
    assert metrics.fetch_samples(f"{name}_nobody", 0, now_s + 100) == ()


def test_a_sample_that_is_not_newer_than_its_series_is_dropped(metrics: MetricsPort, name: str, now_s: float) -> None:
    for at_s, value in ((1.0, 1.0), (2.0, 2.0), (2.0, 7.0), (3.0, 3.0), (1.0, 8.0)):
        metrics.write_samples([sample(now_s + at_s, value, name=name)])
    assert [one.value for one in metrics.fetch_samples(name, now_s, now_s + 100)] == [1.0, 2.0, 3.0]


def test_labels_and_figures_of_any_kind_come_back_as_they_were(metrics: MetricsPort, name: str, now_s: float) -> None:
    labels = {"pool": 'a "b" {c}', "node": "한글\\n", "x": "y" * 300}
    values = [0.0, -1.5e-300, 1e308, math.inf, 0.1 + 0.2]
    metrics.write_samples(Sample(name, labels, now_s + at, value) for at, value in enumerate(values))
    found = metrics.fetch_samples(name, now_s, math.inf)
    assert [(one.labels, one.value) for one in found] == [(labels, value) for value in values]


def test_many_samples_in_one_write_are_all_kept(metrics: MetricsPort, name: str, now_s: float) -> None:
    written = [sample(now_s + k % 20, k, f"p{k // 20:03}", name) for k in range(12_000)]
    metrics.write_samples(written)
    found = metrics.fetch_samples(name, now_s, now_s + 20)
    assert [(one.labels["pool"], one.at_s - now_s, one.value) for one in found] == [
        (f"p{k // 20:03}", k % 20, k) for k in range(12_000)
    ]


@pytest.mark.parametrize("metrics", WITH_MEANS, indirect=True)
def test_a_long_window_is_answered_by_means_of_a_few_thousand_points(
    metrics: MetricsPort, name: str, now_s: float
) -> None:
    begin_s = now_s - 1800
    metrics.write_samples(sample(begin_s + k * 0.5, 3.0, name=name) for k in range(4000))
    found = metrics.fetch_samples(name, begin_s - 30 * DAY_S, math.inf)
    assert 0 < len(found) <= MOST_POINTS
    assert {one.value for one in found} == {3.0}


@pytest.mark.lab
def test_a_restarted_writer_loses_nothing_that_is_news_to_the_server(
    prometheus: Prometheus, name: str, now_s: float
) -> None:
    for begin in (0, 3):
        port = PrometheusMetrics(prometheus.url)
        port.write_samples(sample(now_s + at, at, pool, name) for pool in "abc" for at in range(begin, begin + 5))
        if begin == 0:
            port.write_samples([sample(now_s + 7, 99, "b", name)])
        found = port.fetch_samples(name, now_s, now_s + 100)
        port.close()
    of_b = [one.value for one in found if one.labels["pool"] == "b"]
    assert of_b == [0, 1, 2, 3, 4, 99]
    assert [one.value for one in found if one.labels["pool"] == "a"] == list(range(8))


@pytest.mark.lab
def test_a_prometheus_that_is_away_is_temporary_and_a_wrong_address_is_not(prometheus: Prometheus) -> None:
    with closing(PrometheusMetrics("http://127.0.0.1:9")) as away, pytest.raises(Temporary, match="does not answer"):
        away.fetch_samples("x", 0, 1)
    with closing(PrometheusMetrics(f"{prometheus.url}/elsewhere")) as wrong, pytest.raises(Permanent, match="404"):
        wrong.write_samples([sample(1, 1)])
    with pytest.raises(InvalidInput, match="no address"):
        PrometheusMetrics("prometheus:9090")


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


@example([("a", 0, 0), ("a", 1599, 0), ("a", 2881, 0)])
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
