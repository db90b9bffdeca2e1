"""`dure report --since 7d` on seven days of a small fleet, through the real API: sums, days, sheet, page, replay."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from litestar.testing import TestClient
from msgspec.structs import replace

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.api.app import create_app
from dure.api.auth import Keys
from dure.cli.client import Client
from dure.cli.report_data import collect, replayed_savings
from dure.cli.report_page import write_page
from dure.embedded.week import START_S
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.files.builtin import catalogue
from dure.files.dump import to_yaml

TOKEN = "a-token-of-sufficient-length"
DAY_S = 86_400.0
STEP_S = 1800.0
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  currency: KRW
  clusters:
    - name: seoul
      region: kr-seoul
      timezone: Asia/Seoul
      grid: KR
      pue: 1.3
      connect: {embedded: {}}
      pools:
        - {name: t4, class: t4, nodes: 2, devices: 2, share: [exclusive, mps], price: {owned: 150/h}}
  tenants:
    - {name: vision, weight: 1}
"""


class Asked(Client):
    """The command's client, in front of an application in this process."""

    def __init__(self, http: TestClient[Any]) -> None:
        self._http_here = http

    def _call(self, method: str, path: str, **more: Any) -> Any:
        answer = self._http_here.request(method, path, headers={"authorization": f"Bearer {TOKEN}"}, **more)
        answer.raise_for_status()
        return answer


@pytest.fixture(scope="module")
def week() -> Iterator[Client]:
    """Eight days: a workload of two hours each day, the last seven of which are asked for."""
    fleet, known = read_text(FLEET, "small").fleets[0], catalogue()
    clock = VirtualClock(START_S)
    world = EmbeddedWorld(fleet, known, MemoryStore(), clock, seed=1)
    template = next(one for one in known.templates.values() if any(each.name == "t4" for each in one.classes))
    for step in range(int(8 * DAY_S // STEP_S)):
        clock.advance(START_S + step * STEP_S)
        if step % 48 == 0:
            made = replace(template, name=f"batch-{step // 48}", tenant="vision", duration_s=7200.0, deadline_s=None)
            world.submit([made])
        world.step()
    with TestClient(cast(Any, create_app(world.desk, Keys(TOKEN)).asgi), base_url="http://127.0.0.1") as client:
        yield Asked(client)


def test_seven_days_are_those_before_now_and_every_day_balances(week: Client) -> None:
    found = collect(week, "7d")
    assert found.until_s - found.since_s == 7 * DAY_S
    days: dict[str, dict[str, int]] = {}
    for item in found.ledger["items"]:
        day = days.setdefault(item["by"]["day"], {"paid": 0, "others": 0})
        day["paid" if item["by"]["account"] == "paid" else "others"] += item["micros"]
    assert len(days) in (7, 8), "seven times a day, which may begin within one"
    assert all(day["paid"] == day["others"] > 0 for day in days.values())
    ledger = found.ledger
    assert ledger["paid_micros"] == ledger["used_micros"] + ledger["idle_micros"] + ledger["overhead_micros"]
    assert ledger["used_micros"] > 0


def test_a_day_of_owned_devices_costs_a_seventh_of_a_week(week: Client) -> None:
    a_week, a_day = (collect(week, since).ledger["paid_micros"] for since in ("7d", "24h"))
    assert a_day * 7 == pytest.approx(a_week, rel=0.05)


def test_the_sheet_and_the_page_hold_what_was_paid(week: Client, tmp_path: Path) -> None:
    found = collect(week, "7d")
    rows = list(csv.DictReader(io.StringIO(found.sheet)))
    assert sum(int(row["micros"]) for row in rows if row["account"] == "paid") == found.ledger["paid_micros"]
    assert {row["workload"] for row in rows} >= {f"batch-{day}" for day in range(2, 8)}
    page = tmp_path / "week.html"
    write_page(page, found, None)
    assert "vision" in page.read_text("utf-8")


def test_the_week_is_played_again_on_the_same_fleet(week: Client, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(to_yaml([read_text(FLEET, "small").fleets[0]]))
    found = replayed_savings(week, collect(week, "7d"), file, 1, lambda _: None)
    assert found is not None
    assert found.workloads == found.compared in (6, 7)
    assert found.fixed.cost_micros > 0
