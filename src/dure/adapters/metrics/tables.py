"""The tables of the sample store, and the check that a file is one of this kind.

`piece` holds columns of one metric: plain ones as they were written, kept ones sorted and deflated. `rolled` holds
one row for each step and metric. `mark` tells until when a metric has been rolled up into a step.
"""

from __future__ import annotations

import sqlite3
from itertools import groupby

import numpy as np

from dure.adapters.metrics.columns import Columns, Rolled, deflate, deflate_rolled, plain

_TYPES = (np.int32, np.float64, np.float64)
VERSION = 2
SCHEMA = """
create table if not exists metric (id integer primary key, name text not null unique);
create table if not exists series (id integer primary key, metric integer not null, labels text not null,
                                   unique (metric, labels));
create table if not exists piece (id integer primary key, metric integer not null, low_s real not null,
                                  high_s real not null, count integer not null, kept integer not null,
                                  data blob not null);
create index if not exists piece_by_metric on piece (metric, high_s);
create index if not exists piece_by_time on piece (high_s);
create index if not exists piece_open on piece (metric) where kept = 0;
create table if not exists rolled (step integer not null, metric integer not null, at_s real not null,
                                   data blob not null, primary key (step, metric, at_s)) without rowid;
create table if not exists mark (metric integer not null, step integer not null, until_s real not null,
                                 primary key (metric, step)) without rowid;
"""


# The first layout had a row for each sample and numbers of series where this one has columns.
_FIRST = {"series", "raw", "rolled", "mark"}


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or bring those of the first layout over. Another program's file is not touched."""
    (version,) = db.execute("pragma user_version").fetchone()
    tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    if version == VERSION:
        return
    if tables and (version != 0 or tables != _FIRST):
        raise sqlite3.DatabaseError(f"layout {version} of the tables, {VERSION} is known")
    db.execute("begin immediate")
    for name in sorted(tables):
        db.execute(f"alter table {name} rename to first_{name}")
    db.execute("drop index if exists raw_by_time")
    for statement in SCHEMA.split(";\n"):
        db.execute(statement)
    if tables:
        _bring_over(db)
    for name in sorted(tables):
        db.execute(f"drop table first_{name}")
    db.execute(f"pragma user_version={VERSION}")
    db.execute("commit")


def _bring_over(db: sqlite3.Connection) -> None:
    db.execute("insert into metric (name) select distinct name from first_series")
    db.execute("insert into series select s.id, m.id, s.labels from first_series s join metric m on m.name = s.name")
    db.execute("insert into mark select m.id, f.step, f.until_s from metric m, first_mark f")
    (closed_s,) = db.execute("select coalesce(max(until_s), 0) from first_mark where step = 300").fetchone()
    for (metric,) in db.execute("select id from metric").fetchall():
        for kept, side in ((1, "<"), (0, ">=")):
            query = (
                "select series, at_s, value from first_raw where series in (select id from series where metric = ?) "
                f"and at_s {side} ? order by at_s"
            )
            rows = db.execute(query, (metric, closed_s)).fetchall()
            if rows:
                part = Columns(*(np.array(c, t) for c, t in zip(zip(*rows, strict=True), _TYPES, strict=True)))
                given = (metric, rows[0][1], rows[-1][1], len(rows), kept, deflate(part) if kept else plain(part))
                db.execute("insert into piece values (null, ?, ?, ?, ?, ?, ?)", given)
        query = (
            "select step, at_s, series, count, total, low, high from first_rolled where series in "
            "(select id from series where metric = ?) order by step, at_s, series"
        )
        for (step, at_s), some in groupby(db.execute(query, (metric,)).fetchall(), key=lambda row: row[:2]):
            lines = zip(*(row[2:] for row in some), strict=True)
            rolled = Rolled(*(np.array(c, t) for c, t in zip(lines, (np.int32, *[np.float64] * 4), strict=True)))
            db.execute("insert into rolled values (?, ?, ?, ?)", (step, metric, at_s, deflate_rolled(rolled)))
