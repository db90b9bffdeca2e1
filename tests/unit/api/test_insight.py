"""Insight over the API: what the kept figures mean, and what is said while there are too few of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from dure.adapters.memory.metrics import MemoryMetrics
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.model.answer import FleetStatus, ServiceStatus
from dure.model.sample import Sample
from dure.watch.history import COST, GOOD, REQUESTS
from tests.unit.api.clients import TOKEN, Client
from tests.unit.api.small_world import NOW_S, SmallWorld


class Serving(SmallWorld):
    """The small world with one service whose requests are counted."""

    def __init__(self, total: float, good: float) -> None:
        super().__init__()
        self.counted = math.ceil(total), math.ceil(good)

    def status(self) -> FleetStatus:
        service = ServiceStatus("chat", "search", 0.99, "", "", 1, *self.counted)
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
