"""The gateway's page in Chromium: bars that follow the figures, moves and decisions with their reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from dure.adapters.kueue.objects import ClusterQueue
from dure.gateway.app import create_app
from dure.gateway.journal import Entry, Journal
from dure.gateway.metrics import Metrics
from dure.gateway.server import Server
from dure.gateway.settings import Settings
from dure.web.queues import gateway_pages
from tests.browser.conftest import PATIENCE_MS, Visit
from tests.unit.gateway.boards import FixedBoard, cluster_queue

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]
HOSTILE = "<img src=x onerror=document.title='owned'>"


@pytest.fixture
def board() -> FixedBoard:
    queues: dict[str, ClusterQueue] = {
        "gpu-cluster-queue": cluster_queue("gpu-cluster-queue", {"nvidia.com/gpu": 4, "memory": "160Gi"}, reserved=3),
        "cpu-cluster-queue": cluster_queue("cpu-cluster-queue", {"cpu": 24}, stopped="Hold"),
    }
    return FixedBoard(queues)


@pytest.fixture
def journal() -> Journal:
    found = Journal()
    found.write(Entry(1.7e9, "chosen", "research", "sd-1", "user-gpu", "t4", "home-is-first", HOSTILE))
    found.write(Entry(1.7e9, "chosen", "research", "sd-2", "user-gpu", "t4", "ends-first", "ends in 9 s"))
    moved = Entry(
        1.7e9 + 5, "moved", "research", "sd-2-m1", "user-cpu", "cpu", "recreate", "40 s sooner", "", "user-gpu"
    )
    found.write(moved, also="sd-2")
    return found


@pytest.fixture(
    params=[(1280, 800, "dark"), (1280, 800, "light"), (390, 844, "dark")], ids=["dark", "light", "phone"]
)
def visit(request: pytest.FixtureRequest, chromium: Browser, board: FixedBoard, journal: Journal) -> Iterator[Visit]:
    desk: Any = SimpleNamespace(board=board, journal=journal, settings=Settings(), metrics=Metrics())
    nobody: Any = SimpleNamespace()
    running = Server(create_app(desk, nobody, gateway_pages()))
    url = running.start("127.0.0.1", 0)
    width, height, scheme = request.param
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    visit = Visit(context.new_page())
    visit.page.goto(url)
    yield visit
    context.close()
    running.stop()


def test_queues_moves_and_decisions_are_on_the_page(
    request: pytest.FixtureRequest, visit: Visit, shots: Path
) -> None:
    page = visit.page
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".queue h3")).to_have_text(["cpu-cluster-queue", "gpu-cluster-queue"])
    expect(page.locator(".queue .stopped").first).to_contain_text("Hold")
    gpu = page.get_by_role("meter", name="nvidia.com/gpu of gpu-cluster-queue")
    expect(gpu).to_have_attribute("aria-valuenow", "3")
    expect(page.locator("#moves li")).to_have_count(1)
    expect(page.locator("#moves li")).to_contain_text("user-gpu → user-cpu")
    expect(page.locator("#decisions li")).to_have_count(2)
    page.screenshot(path=shots / f"{request.node.name}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.title() == "Dure gateway"
    assert visit.complaints == []


def test_the_bars_follow_the_figures(visit: Visit, board: FixedBoard) -> None:
    gpu = visit.page.get_by_role("meter", name="nvidia.com/gpu of gpu-cluster-queue")
    expect(gpu).to_have_attribute("aria-valuenow", "3")
    board.queues.put(cluster_queue("gpu-cluster-queue", {"nvidia.com/gpu": 4, "memory": "160Gi"}, reserved=1))
    expect(gpu).to_have_attribute("aria-valuenow", "1")
    board.stale_s = 99.0
    expect(visit.page.locator("#live")).to_have_text(re.compile("99 s old"))
