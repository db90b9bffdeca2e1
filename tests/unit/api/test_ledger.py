"""The ledger over the API: sums, balance, sheets, FOCUS rows and OpenCost's allocations from the same postings."""

from __future__ import annotations

import csv
import io
import json

import pytest

from dure.model.posting import Account, Posting
from tests.unit.api.clients import Client
from tests.unit.api.small_world import NOW_S, SmallWorld

HOUR = int(NOW_S // 3600)
_DEVICE_HOUR = 3_600_000_000


@pytest.fixture
def posted(world: SmallWorld) -> SmallWorld:
    where = ("seoul-onprem", "h100")
    lines = []
    for hour in (HOUR - 30, HOUR - 1, HOUR):
        lines += [
            Posting(hour, *where, Account.PAID, micros=10_000_003, carbon_mg=900, device_ms=4 * _DEVICE_HOUR),
            Posting(hour, *where, Account.USED, "vision", "chat", "a", 5_000_001, 500, 2 * _DEVICE_HOUR, 3),
            Posting(hour, *where, Account.STARTING, "search", "", "b", 2_000_000, 100, _DEVICE_HOUR),
            Posting(hour, *where, Account.IDLE, micros=2_500_000, carbon_mg=200, device_ms=_DEVICE_HOUR),
            Posting(hour, *where, Account.BUILDING, micros=500_002, carbon_mg=100),
        ]
    world.store.commit([], postings=lines)
    return world


def test_what_was_paid_is_used_plus_idle_plus_overhead(client: Client, posted: SmallWorld) -> None:
    found = client.get("/v1/ledger").json()
    parts = found["used_micros"] + found["idle_micros"] + found["overhead_micros"]
    assert found["paid_micros"] == parts == 30_000_009
    assert found["imbalances"] == 0


def test_sums_are_by_what_one_asks_for(client: Client, posted: SmallWorld) -> None:
    rows = client.get("/v1/ledger", params={"by": "group,tenant", "tenant": "vision"}).json()["items"]
    assert [(row["by"], row["micros"]) for row in rows] == [({"group": "used", "tenant": "vision"}, 15_000_003)]
    days = client.get("/v1/ledger.csv", params={"by": "day,group"})
    assert days.headers["content-type"].startswith("text/csv")
    assert (
        sum(int(row["micros"]) for row in csv.DictReader(io.StringIO(days.text)) if row["group"] == "paid")
        == 30_000_009
    )


def test_a_window_leaves_out_what_lies_outside(client: Client, posted: SmallWorld) -> None:
    found = client.get("/v1/ledger", params={"since_s": NOW_S - 7200, "until_s": NOW_S}).json()
    assert found["paid_micros"] == 20_000_006


@pytest.mark.parametrize(
    "question",
    ["/v1/ledger?by=colour", "/v1/ledger?since_s=9&until_s=1", "/v1/ledger?since_s=0", "/allocation?window=soon",
     "/allocation?aggregate=colour"],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused_with_a_remedy(
    client: Client, posted: SmallWorld, question: str
) -> None:
    answer = client.get(question)
    assert answer.status_code == 400
    assert answer.json()["remedy"]


def test_waste_names_the_dearest_first_with_what_to_do(client: Client, posted: SmallWorld) -> None:
    found = client.get("/v1/waste").json()["items"]
    assert [one["cause"] for one in found] == ["idle", "starting", "building"]
    assert all(one["advice"] for one in found)


def test_focus_rows_sum_up_to_what_was_paid(client: Client, posted: SmallWorld) -> None:
    rows = list(csv.DictReader(io.StringIO(client.get("/v1/focus.csv").text)))
    assert sum(round(float(row["BilledCost"]) * 1e6) for row in rows) == 30_000_009
    used = next(row for row in rows if row["ResourceName"] == "a")
    assert (used["SubAccountId"], used["ChargeCategory"], used["BillingCurrency"]) == ("vision", "Usage", "KRW")
    assert json.loads(used["Tags"])["dure.dev/model"] == "chat"
    assert used["ChargePeriodStart"] < used["ChargePeriodEnd"]


def test_allocations_read_as_those_of_opencost(client: Client, posted: SmallWorld) -> None:
    answer = client.get(
        "/allocation/compute", params={"window": "2d", "aggregate": "namespace", "accumulate": "true"}
    )
    (one,) = answer.json()["data"]
    assert answer.json()["code"] == 200
    assert set(one) == {"vision", "search", "__idle__", "__unallocated__"}
    assert sum(part["totalCost"] for part in one.values()) == pytest.approx(30.000009)
    assert one["vision"]["gpuHours"] == pytest.approx(6.0)
    assert one["vision"]["totalEfficiency"] == 1.0
    assert one["search"]["totalEfficiency"] == 0.0
    assert one["vision"]["properties"] == {"namespace": "vision"}


def test_steps_of_a_window_follow_each_other(client: Client, posted: SmallWorld) -> None:
    sets = client.get("/allocation", params={"window": "2d", "step": "1d", "includeIdle": "false"}).json()["data"]
    assert len(sets) >= 2
    assert all("__idle__" not in one for one in sets)
    assert sum(part["totalCost"] for one in sets for part in one.values()) == pytest.approx(22.500009)


def test_a_text_that_looks_like_a_formula_is_disarmed(client: Client, world: SmallWorld) -> None:
    world.store.commit(
        [], postings=[Posting(HOUR, "seoul-onprem", "h100", Account.USED, "=cmd()", "", "w", 5, 0, _DEVICE_HOUR)]
    )
    assert "'=cmd()" in client.get("/v1/ledger.csv", params={"by": "tenant"}).text
