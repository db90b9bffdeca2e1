"""Insight over the API: what the kept figures mean, and what is said while there are too few of them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from dure.adapters.memory.metrics import MemoryMetrics
from dure.api.app import create_app
from dure.api.auth import OWNER, Keys
from dure.model.answer import FleetStatus, ServiceStatus
from dure.model.posting import Account, Posting
from dure.model.sample import Sample
from dure.model.tenant import Role
from dure.model.token import TokenWish
from dure.plane import tokens
from dure.plane.books import MARK
from dure.watch.history import COST, GOOD, REQUESTS, UP
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import NOW_S, SmallWorld


class Serving(SmallWorld):
    """The small world with one service whose requests are counted."""

    def __init__(self, total: float, good: float, availability: float | None = None) -> None:
        super().__init__()
        self.counted, self.availability = (math.ceil(total), math.ceil(good)), availability

    def status(self) -> FleetStatus:
        service = ServiceStatus("chat", "search", 0.99, "", "", 1, *self.counted, availability=self.availability)
        return msgspec.structs.replace(super().status(), services=(service,))


def day(metrics: MemoryMetrics, hours: int, bad_from: int) -> tuple[float, float]:
    """Requests every five minutes; from `bad_from` hours before the end a tenth of them is late."""
    total = good = 0.0
    samples = []
    for step in range(hours * 12):
        at_s = NOW_S - (hours * 12 - step) * 300.0
        asked = 3000 + 1000 * math.sin(at_s * 2 * math.pi / 86_400)
        total += asked
        good += asked * (0.9 if step >= (hours - bad_from) * 12 else 0.999)
        labels = {"workload": "chat", "tenant": "search"}
        samples += [
            Sample(REQUESTS, labels, at_s, total),
            Sample(GOOD, labels, at_s, good),
            Sample(COST, {}, at_s, 5e9),
        ]
    metrics.write_samples(samples)
    return total, good


@contextmanager
def watching(hours: int = 0, bad_from: int = 0) -> Iterator[Client]:
    """The figures are there before the server starts, which keeps only what is newer than what it has."""
    metrics = MemoryMetrics()
    counted = day(metrics, hours, bad_from)
    asgi: Any = create_app(Serving(*counted), Keys(TOKEN), samples=metrics).asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


def test_a_service_that_is_late_for_six_hours_pages_and_is_an_anomaly() -> None:
    with watching(120, 6) as client:
        (budget,) = client.get("/v1/slo").json()["items"]
        assert (budget["workload"], budget["level"]) == ("chat", "page")
        assert budget["state"]["burns"][1]["firing"]
        (found,) = client.get("/v1/anomalies").json()["items"]
    assert found["thing"] == "chat"
    assert found["value"] < 0.92 < found["expected"]
    assert "below" in found["evidence"]


def test_a_broken_promise_is_a_trouble_of_the_fleet_and_a_kept_one_is_not() -> None:
    with watching(120, 6) as client:
        (trouble,) = client.get("/v1/status").json()["troubles"]
    assert trouble == {
        "sentence": "chat spends its error budget 10 times as fast as it may",
        "workload": "chat",
        "remedy": "dure why chat",
    }
    with watching(120) as client:
        assert "troubles" not in client.get("/v1/status").json()


def test_a_service_that_keeps_its_promise_is_quiet() -> None:
    with watching(120) as client:
        (budget,) = client.get("/v1/slo").json()["items"]
        assert budget["level"] == ""
        assert budget["state"]["left"] > 0.8
        assert client.get("/v1/anomalies").json()["items"] == []


def test_two_promises_have_two_budgets_and_an_hour_without_a_replica_breaks_one_of_them() -> None:
    metrics = MemoryMetrics()
    counted = day(metrics, 120, 0)
    labels = {"workload": "chat", "tenant": "search"}
    metrics.write_samples(
        Sample(UP, labels, NOW_S - step * 300.0, float(step >= 12)) for step in range(120 * 12, 0, -1)
    )
    asgi: Any = create_app(Serving(*counted, availability=0.999), Keys(TOKEN), samples=metrics).asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        down, late = client.get("/v1/slo").json()["items"]
        (trouble,) = client.get("/v1/status").json()["troubles"]
    assert (down["promise"], down["level"], down["state"]["target"]) == ("up", "page", 0.999)
    assert ("promise" in late, late["level"]) == (False, "")
    assert "time without a replica" in trouble["sentence"]


def test_nothing_is_claimed_before_there_are_figures() -> None:
    with watching() as client:
        assert client.get("/v1/anomalies").json()["items"] == []
        assert client.get("/v1/forecast/cost").json()["past"] == []
        assert client.get("/v1/drift").json()["items"] == []


def test_a_day_of_cost_is_foreseen_with_its_range() -> None:
    with watching(100) as client:
        found = client.get("/v1/forecast/cost").json()
        sheet = client.get("/v1/forecast/cost/sheet.csv").text
    assert len(found["ahead"]) == 24
    assert found["ahead"][0][1][1] == pytest.approx(5e9, rel=0.01)
    assert sheet.splitlines()[0] == "at_s,value,q10,q50,q90"


def test_an_unknown_forecast_names_the_nearest() -> None:
    with watching() as client:
        answer = client.get("/v1/forecast/costs")
    assert answer.status_code == 404
    assert "'cost'" in answer.json()["remedy"]


class Ledgered(SmallWorld):
    """Two tenants' hours in the ledger: the one's a day's wave, the other's only the newest ones."""

    def __init__(self, hours: int, newest: int = 0) -> None:
        super().__init__()
        last = int(NOW_S // 3600)
        self.store.commit(
            [],
            postings=[
                *(used("vision", last - back, 1_000_000 * (10 + (last - back) % 24)) for back in range(hours + 1)),
                *(used("search", last - back, 7_000_000) for back in range(1, newest + 1)),
            ],
            settings={MARK: repr(NOW_S)},
        )


def used(tenant: str, hour: int, micros: int) -> Posting:
    return Posting(
        hour, "seoul", "h100", Account.USED, tenant, "", f"{tenant}-job", micros, micros // 1000, 3_600_000_000
    )


@contextmanager
def ledgered(hours: int, newest: int = 0) -> Iterator[tuple[Client, Ledgered]]:
    world = Ledgered(hours, newest)
    asgi: Any = create_app(world, Keys(TOKEN), samples=MemoryMetrics()).asgi
    with TestClient(asgi, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client, world


def test_a_tenants_forecast_follows_from_its_own_closed_hours() -> None:
    with ledgered(200) as (client, _):
        found = client.get("/v1/forecast/cost", params={"tenant": "vision"}).json()
        sheet = client.get("/v1/forecast/cost/sheet.csv", params={"tenant": "vision"}).text
        devices = client.get("/v1/forecast/used", params={"tenant": "vision"}).json()
        carbon = client.get("/v1/forecast/carbon", params={"tenant": "vision"}).json()
    assert (found["tenant"], found["method"], len(found["past"])) == ("vision", "mixed", 200)
    assert found["past"][-1][0] == NOW_S // 3600 * 3600 - 3600
    for at_s, (low, middle, high) in found["ahead"]:
        wave = 1_000_000 * (10 + int(at_s // 3600) % 24)
        assert low <= middle <= high
        assert middle == pytest.approx(wave, rel=0.01)
    assert sheet.splitlines()[0] == "at_s,value,q10,q50,q90"
    assert devices["ahead"][0][1][1] == pytest.approx(1.0)
    assert carbon["past"][0][1] == pytest.approx(found["past"][0][1] / 1e6)


def test_what_lies_before_a_tenants_first_hour_is_no_past_of_its_own() -> None:
    with ledgered(200, newest=5) as (client, _):
        found = client.get("/v1/forecast/cost", params={"tenant": "search"}).json()
    assert [value for _, value in found["past"]] == [7_000_000.0] * 5
    assert found["method"] == "seasonal-naive"


@pytest.mark.parametrize("hours", [0, 1, 30, 100, 130])
def test_a_tenant_needs_as_much_past_as_the_fleet(hours: int) -> None:
    with watching(hours) as client:
        whole = client.get("/v1/forecast/cost").json()
    past = sum(value is not None for _, value in whole["past"])
    with ledgered(0, newest=past) as (client, _):
        own = client.get("/v1/forecast/cost", params={"tenant": "search"}).json()
    assert (len(own["ahead"]), own["method"]) == (len(whole["ahead"]), whole["method"])


def test_who_belongs_to_a_tenant_is_told_its_own_forecast_and_no_other() -> None:
    with ledgered(50, newest=50) as (client, world):
        secret = tokens.create(world.store, TokenWish("v", Role.VIEWER, "vision"), OWNER, time.time()).secret
        client.headers["authorization"] = f"Bearer {secret}"
        own = client.get("/v1/forecast/cost").json()
        other = client.get("/v1/forecast/cost", params={"tenant": "search"})
        none = client.get("/v1/forecast/cost", params={"tenant": "nobody"})
    assert own["tenant"] == "vision"
    assert {value for _, value in own["past"]}.isdisjoint({7_000_000.0})
    assert (other.status_code, none.status_code) == (404, 404)
    assert other.json()["detail"].replace("search", "nobody") == none.json()["detail"]
