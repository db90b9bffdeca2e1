"""The views beside the map: money, promises, the past. In Chromium, against the running server."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from dure.api.auth import OWNER
from dure.api.server import Server
from dure.embedded.live import LiveFleet
from dure.model.tenant import Role
from dure.model.token import TokenWish
from dure.plane import tokens
from tests.browser.conftest import PATIENCE_MS, Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]

SCREENS = pytest.mark.parametrize(
    "visit", [(1280, 900, "dark"), (390, 844, "light")], ids=["desk", "phone"], indirect=True
)
READY = {"money": "#chart-went .main-svg", "promises": "#chart-queue .main-svg", "past": "#pools .meter"}


def opened(visit: Visit, name: str) -> None:
    visit.page.locator(".views a", has_text=re.compile(name, re.IGNORECASE)).click()
    visit.page.wait_for_selector(READY[name])


@SCREENS
@pytest.mark.parametrize("name", list(READY))
def test_every_view_fits_every_screen_and_complains_of_nothing(visit: Visit, name: str, shots: Path) -> None:
    opened(visit, name)
    expect(visit.page.locator("#live")).to_have_attribute("data-state", "on")
    visit.page.screenshot(path=shots / f"{name}.png", full_page=True)
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.complaints == []


@pytest.mark.parametrize("name", list(READY))
def test_every_figure_of_a_view_is_one_click_from_its_data(visit: Visit, name: str) -> None:
    opened(visit, name)
    base = visit.page.evaluate("location.origin")
    links = visit.page.locator("a.data[href]").evaluate_all("nodes => nodes.map((node) => node.href)")
    assert len(links) >= 5
    for link in set(links):
        answer = visit.page.request.get(link)
        assert answer.ok, link
        assert link.startswith(base)
        wanted = "text/csv" if ".csv" in link else "application/json"
        assert answer.headers["content-type"].startswith(wanted), link


def test_the_books_on_the_page_balance(visit: Visit) -> None:
    opened(visit, "money")
    expect(visit.page.locator("#balance")).to_have_text("the books balance to the last millionth")
    parts = [float(visit.page.locator(f"#part-{name}").inner_text()) for name in ("used", "idle", "overhead")]
    assert abs(sum(parts) - 100) < 0.3


def test_days_and_carbon_can_be_chosen(visit: Visit) -> None:
    opened(visit, "money")
    visit.page.get_by_role("button", name="days").click()
    expect(visit.page.get_by_role("link", name="The chart as a sheet")).to_have_attribute(
        "href", re.compile("by=day,group")
    )
    visit.page.get_by_role("button", name="CO₂e").click()
    expect(visit.page.get_by_role("button", name="CO₂e")).to_have_attribute("aria-pressed", "true")


def test_the_forecast_of_one_tenant_can_be_chosen(visit: Visit) -> None:
    opened(visit, "money")
    visit.page.get_by_label("Whose forecast").select_option("vision")
    expect(visit.page.locator("#ahead-note")).to_have_text(re.compile("^vision: "))
    expect(visit.page.locator("#green-note")).to_have_text(re.compile("^vision: "))
    expect(visit.page.get_by_role("link", name="The forecast of cost as JSON")).to_have_attribute(
        "href", "/v1/forecast/cost?tenant=vision"
    )
    assert visit.complaints == []


@pytest.mark.parametrize("name", ["money", "promises"])
def test_who_belongs_to_a_tenant_sees_its_own_figures_and_no_empty_panels(
    chromium: Browser, server: Server, live: LiveFleet, name: str, shots: Path
) -> None:
    wish = TokenWish(f"{name}-{time.time_ns()}", Role.VIEWER, "vision")
    secret = tokens.create(live.store, wish, OWNER, time.time()).secret
    context = chromium.new_context(extra_http_headers={"authorization": f"Bearer {secret}"})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(f"{server.address.url}/{name}")
    expect(page.locator("#live")).to_have_attribute("data-state", "on")
    expect(page.locator("#problem")).to_be_hidden()
    if name == "money":
        expect(page.locator("#ahead-note")).to_have_text(re.compile("^vision: "))
        hidden = ["waste", "ahead-of"]
    else:
        page.wait_for_selector("#chart-length .main-svg")
        assert page.locator("#chart-length").evaluate("node => node.data.map((one) => one.name)") == ["vision"]
        hidden = ["anomalies", "changes", "drift"]
    for panel in hidden:
        expect(page.locator(f"#{panel}")).to_be_hidden()
    page.screenshot(path=shots / f"{name}-of-a-tenant.png", full_page=True)
    context.close()


def test_a_broken_promise_stands_first_and_explains_itself(visit: Visit) -> None:
    opened(visit, "promises")
    row = visit.page.locator("#slo tr").first
    expect(row).to_be_visible()
    row.get_by_role("button").click()
    expect(visit.page.get_by_role("dialog")).to_contain_text("serving")


@SCREENS
def test_every_tenants_queue_has_a_line_in_each_of_three_charts(visit: Visit, shots: Path) -> None:
    opened(visit, "promises")
    panel = visit.page.locator("#queues")
    panel.scroll_into_view_if_needed()
    for chart in ("length", "waited", "admitted"):
        visit.page.wait_for_selector(f"#chart-{chart} .main-svg")
    names = "(id) => document.getElementById(id).data.map((one) => one.name)"
    lines = visit.page.evaluate(f"['chart-length', 'chart-waited', 'chart-admitted'].map({names})")
    assert lines[0] == lines[1] == lines[2] != []
    expect(visit.page.locator("#queues-note")).not_to_be_empty()
    drawn = visit.page.locator("#chart-length").evaluate("node => node.data[0].y.length")
    assert drawn > 0
    width = visit.page.evaluate("innerWidth")
    panel.screenshot(path=shots / f"queues-{width}.png")


def test_the_slider_goes_back_and_forth_in_time(visit: Visit) -> None:
    opened(visit, "past")
    expect(visit.page.locator("#past-note")).to_contain_text("Now")
    slider = visit.page.locator("#slider")
    slider.focus()
    slider.press("Home")
    expect(visit.page.locator("#past-note")).to_contain_text("ago")
    expect(visit.page.locator("#ran-count")).to_have_text(re.compile(r"^\d+$"))
    visit.page.get_by_role("button", name="An hour on").click()
    expect(visit.page.locator("#moment")).not_to_be_empty()
    slider.press("End")
    expect(visit.page.locator("#past-note")).to_contain_text("Now")


def test_one_device_shows_who_held_it(visit: Visit, live: LiveFleet) -> None:
    report = next(one for one in live.store.list_reports() if one.cluster == "seoul-onprem")
    held = next(device for device in report.devices if device.held)
    visit.page.goto(f"{visit.page.evaluate('location.origin')}/past?cluster=seoul-onprem&device={held.id}")
    expect(visit.page.locator("#device")).to_have_value(held.id)
    expect(visit.page.locator("#device-note")).to_contain_text("last held by")
    drawn = "node => new Set(node.getContext('2d').getImageData(0, 0, node.width, node.height).data).size"
    assert visit.page.locator("#device-line").evaluate(drawn) > 2


def test_another_policy_is_compared_beside_the_live_one_and_stopped(visit: Visit) -> None:
    opened(visit, "past")
    visit.page.locator("#policy").select_option("regret")
    visit.page.get_by_role("button", name="compare").click()
    expect(visit.page.locator("#compare")).to_contain_text("Same home")
    visit.page.get_by_role("button", name="stop").click()
    expect(visit.page.locator("#compare tr")).to_have_count(0)
