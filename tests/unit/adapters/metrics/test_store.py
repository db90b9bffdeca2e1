"""The file of samples: columns, downsampling, sizes, and files of the first layout."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dure.adapters.metrics import SqliteMetrics
from dure.adapters.metrics import columns as cols
from dure.model.errors import Permanent
from dure.model.sample import Sample
from dure.model.units import DAY_S


@given(st.integers(0, 40).flatmap(lambda n: st.tuples(
    npst.arrays(np.int32, n), npst.arrays(np.float64, n), npst.arrays(np.float64, n))))  # fmt: skip
def test_columns_come_out_as_they_went_in(drawn: tuple[cols.Ints, cols.Floats, cols.Floats]) -> None:
    packed = cols.Columns(*drawn)
    for again in (cols.inflate(cols.deflate(packed)), cols.read_plain(cols.plain(packed))):
        assert packed.series.tobytes() == again.series.tobytes()
        assert packed.at_s.tobytes() == again.at_s.tobytes()
        assert packed.value.tobytes() == again.value.tobytes()


def test_hours_are_added_up_from_five_minutes_with_extremes_and_counts() -> None:
    parts = [
        cols.rolled_up(cols.Columns(np.array(s, np.int32), np.zeros(len(s)), np.array(v)))
        for s, v in (([1, 1, 2], [1.0, 3.0, 5.0]), ([1, 3], [-4.0, 9.0]))
    ]
    hour = cols.coarser(parts)
    assert hour.series.tolist() == [1, 2, 3]
    assert hour.counts.tolist() == [3.0, 1.0, 1.0]
    assert hour.total.tolist() == [0.0, 5.0, 9.0]
    assert (hour.low.tolist(), hour.high.tolist()) == ([-4.0, 5.0, 9.0], [3.0, 5.0, 9.0])


def test_a_full_file_lets_go_of_the_oldest_samples_and_keeps_their_means(tmp_path: Path) -> None:
    metrics = SqliteMetrics(tmp_path / "metrics.db", most_bytes=300_000)
    drawn = np.random.default_rng(1).random((1440, 40))
    for minute, values in enumerate(drawn):
        at_s = 1e9 + minute * 60.0
        metrics.write_samples(Sample("x", {"n": str(n)}, at_s, float(value)) for n, value in enumerate(values))
    assert (tmp_path / "metrics.db").stat().st_size < 900_000
    first = metrics.fetch_samples("x", 1e9, 1e9 + 1800)
    assert {one.at_s % 300 for one in first} == {0.0}
    last = [one for one in metrics.fetch_samples("x", 1e9 + 1430 * 60, 2e9) if one.labels["n"] == "7"]
    assert [one.value for one in last] == drawn[1430:, 7].tolist()
    metrics.close()


def test_a_late_sample_of_a_step_that_is_closed_is_dropped_even_after_a_restart(tmp_path: Path) -> None:
    metrics = SqliteMetrics(tmp_path / "metrics.db")
    metrics.write_samples(Sample("x", {"n": "a"}, 1e9 + 60.0 * k, 1.0) for k in range(60))
    metrics.write_samples([Sample("x", {"n": "new"}, 1e9 + 60.0, 5.0)])
    metrics.close()
    again = SqliteMetrics(tmp_path / "metrics.db")
    again.write_samples([Sample("x", {"n": "newer"}, 1e9 + 120.0, 5.0), Sample("x", {"n": "a"}, 1e9 + 3600.0, 2.0)])
    assert {one.labels["n"] for one in again.fetch_samples("x", 0, 2e9)} == {"a"}
    assert len(again.fetch_samples("x", 0, 2e9)) == 61
    again.close()


FIRST_LAYOUT = """
create table series (id integer primary key, name text not null, labels text not null, unique (name, labels));
create table raw (series integer not null, at_s real not null, value real not null,
                  primary key (series, at_s)) without rowid;
create table rolled (step integer not null, series integer not null, at_s real not null, count integer not null,
                     total real not null, low real not null, high real not null,
                     primary key (step, series, at_s)) without rowid;
create table mark (step integer primary key, until_s real not null);
create index raw_by_time on raw (at_s);
"""


def test_a_file_of_the_first_layout_is_brought_over_with_samples_and_means(tmp_path: Path) -> None:
    now_s = 10_000 * DAY_S
    db = sqlite3.connect(tmp_path / "metrics.db")
    db.executescript(FIRST_LAYOUT)
    db.execute("""insert into series values (4, 'x', '[["pool", "a"]]'), (9, 'x', '[["pool", "b"]]')""")
    raw = [(series, now_s + k * 60.0, float(k)) for series in (4, 9) for k in range(30)]
    db.executemany("insert into raw values (?, ?, ?)", raw)
    old_s = now_s - 9 * DAY_S
    db.executemany(
        "insert into rolled values (300, 4, ?, 5, ?, 0, 9)", [(old_s + 300 * k, 5.0 * k) for k in range(9)]
    )
    db.executemany("insert into mark values (?, ?)", [(300, now_s + 900), (3600, now_s)])
    db.commit()
    db.close()
    metrics = SqliteMetrics(tmp_path / "metrics.db")
    today = metrics.fetch_samples("x", now_s, now_s + DAY_S)
    assert [(one.labels["pool"], one.value) for one in today] == [(p, float(k)) for p in "ab" for k in range(30)]
    weeks = metrics.fetch_samples("x", old_s, old_s + 3000)
    assert [one.value for one in weeks] == [float(k) for k in range(9)]
    metrics.write_samples(
        [Sample("x", {"pool": "a"}, now_s + 600, 7.0), Sample("x", {"pool": "a"}, now_s + 1800, 7.0)]
    )
    assert len(metrics.fetch_samples("x", now_s, now_s + DAY_S)) == 61
    metrics.close()


def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "metrics.db")
    db.execute("create table letters (id integer)")
    db.commit()
    with pytest.raises(Permanent, match="cannot be read"):
        SqliteMetrics(tmp_path / "metrics.db")
    assert [name for (name,) in db.execute("select name from sqlite_master")] == ["letters"]
    db.close()
