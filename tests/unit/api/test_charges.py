"""The ledger of a month as a tenant's bill is made from it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from dure.model.units import DAY_S
from dure.ports import Change, Charge
from tests.unit.api.clients import Client
from tests.unit.api.small_world import SmallWorld


def charge(world: SmallWorld, day: date, tenant: str, micros: int) -> None:
    record = world.store.list_workloads()[0]
    number = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() // DAY_S)
    made = Charge(number, tenant, "seoul", micros, 1_500)
    world.store.commit([Change(record.uid, record.version, record.status, charges=(made,))])


def test_a_month_ends_where_the_next_begins_and_tenants_are_told_apart(client: Client, world: SmallWorld) -> None:
    for day, tenant, micros in (
        (date(2031, 1, 31), "vision", 1), (date(2031, 2, 1), "vision", 20), (date(2031, 2, 28), "vision", 300),
        (date(2031, 2, 28), "search", 4_000), (date(2031, 3, 1), "vision", 50_000),
    ):  # fmt: skip
        charge(world, day, tenant, micros)
    rows = client.get("/v1/charges", params={"month": "2031-02", "tenant": "vision"}).json()["items"]
    assert [(row["day"], row["micros"], row["carbon_g"]) for row in rows] == [
        ("2031-02-01", 20, 1.5), ("2031-02-28", 300, 1.5),
    ]  # fmt: skip
    everybody = client.get("/v1/charges", params={"month": "2031-02"}).json()["items"]
    assert sum(row["micros"] for row in everybody) == 4_320


@pytest.mark.parametrize("month", ["2031-13", "january", "2031", "0000-01", "9999-12"])
def test_what_is_no_month_is_refused_in_words(client: Client, month: str) -> None:
    answer = client.get("/v1/charges", params={"month": month})
    assert answer.status_code == 400
    assert "2026-11" in answer.text
