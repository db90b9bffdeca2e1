"""A small gateway bench: everything but the cluster is real, and what a submission does is counted, not timed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dure.bench.gateway import WARM_UP, measured, summary
from dure.gateway.app import create_app
from dure.gateway.desk import Caller, Desk
from dure.gateway.ledger import Held
from dure.gateway.server import Server
from dure.gateway.view import LISTED, View
from dure.gateway.who import Doorman
from tests.unit.gateway.test_desk import EchoApi, board, desk, job
from tests.unit.gateway.test_ledger import workload

PAIRS, RATE, SECONDS = 4, 50.0, 0.2


@pytest.fixture
def served() -> Iterator[tuple[Desk, EchoApi, str]]:
    found, api = desk(board())
    given: Any = api
    server = Server(create_app(found, Doorman(given, everybody=True)))
    yield found, api, server.start("127.0.0.1", 0)
    server.stop()


def test_every_submission_of_the_bench_is_one_job_and_every_way_is_told(served: tuple[Desk, EchoApi, str]) -> None:
    found, api, url = served
    direct, rows = EchoApi(), []
    given: Any = direct
    for existing in (0, 400):
        found.view._ledger.reset(workload(number) for number in range(existing))
        rows += measured(given, url, existing, PAIRS, RATE, SECONDS)
    each = WARM_UP + PAIRS + int(RATE * SECONDS)
    for made in (direct.made, api.made):
        names = [one["metadata"]["name"] for one in made]
        assert len(names) == len(set(names)) == 2 * each
        assert all(one["spec"]["suspend"] for one in made)
    ways = ["direct", "gateway", "direct at rate", "gateway at rate"]
    assert [(row["way"], row["existing_workloads"]) for row in rows] == [(way, n) for n in (0, 400) for way in ways]
    assert [row["submissions"] for row in rows] == [PAIRS, PAIRS, 10, 10] * 2
    assert not any(row.get("failed") for row in rows)
    assert {f"added with {existing} workloads, p99_ms" for existing in (0, 400)} <= summary(rows).keys()


@pytest.mark.parametrize("existing", [0, 300, 3000])
def test_a_submission_reads_no_workload_that_did_not_change(existing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = desk(board())
    ledger = found.view._ledger
    ledger.reset(workload(number) for number in range(existing))
    read: list[str] = []
    original = View._waiting

    def counting(self: View, one: Held, *rest: Any) -> Any:
        read.append(one.job)
        return original(self, one, *rest)

    monkeypatch.setattr(View, "_waiting", counting)
    found.submit(job("first"), Caller(), where="job")
    assert len(read) == min(existing, LISTED)
    read.clear()
    for number in range(5):
        found.submit(job(f"next-{number}"), Caller(), where="job")
    assert read == []
    ledger.put(workload(existing + 1))
    found.submit(job("last"), Caller(), where="job")
    assert read == [f"default/job-{existing + 1}"]
