"""The dashboard as a person meets it: in Chromium, against the running server."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, expect

from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.embedded.live import LiveFleet
from dure.model.demand import Demand
from dure.model.event import Event
from dure.model.workload import AcceptedClass, Workload, WorkloadType
from dure.web.pages import pages
from tests.browser.conftest import Visit
from tests.unit.embedded.test_sharing import NAMES, Scene, device

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("browser")]

SCREENS = pytest.mark.parametrize(
    "visit",
    [(1280, 900, "dark"), (1280, 900, "light"), (390, 844, "dark")],
    ids=["dark", "light", "phone"],
    indirect=True,
)
HOSTILE = "<img src=x onerror=document.title='owned'>"


@SCREENS
def test_the_first_page_answers_at_once_on_every_screen(visit: Visit, shots: Path) -> None:
    page = visit.page
    expect(page.locator("#verdict")).to_have_attribute("data-state", re.compile("well|trouble"))
    for figure in ("#cost", "#carbon", "#used"):
        expect(page.locator(figure)).to_have_text(re.compile(r"\d"))
    expect(page.locator("#running tr").first).to_be_visible()
    page.wait_for_selector("#chart-cost .main-svg")
    page.screenshot(path=shots / "page.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.complaints == []


def test_every_cluster_and_pool_of_the_fleet_is_on_the_map(visit: Visit, live: LiveFleet) -> None:
    shown = visit.page.locator(".cluster h3").all_inner_texts()
    assert sorted(shown) == sorted(cluster.info.name for cluster in live.fleet.clusters)
    pools = sum(len(cluster.pools) for cluster in live.fleet.clusters)
    expect(visit.page.locator("#clusters canvas")).to_have_count(pools)


def test_a_held_workload_is_one_click_from_its_reasons(visit: Visit, live: LiveFleet) -> None:
    name = "wants-the-moon"
    live.desk.submit(
        Workload(name, "lab", WorkloadType.TRAINING, (AcceptedClass("h100-80gb-sxm"),), Demand(devices=8), gang=40)
    )
    row = visit.page.locator("#waiting li", has_text=name)
    expect(row.locator(".reason")).to_have_text(re.compile(r"^[A-Z]\w+$"))
    row.get_by_role("button", name=name).click()
    panel = visit.page.get_by_role("dialog")
    expect(panel).to_contain_text("tenant lab")
    expect(panel.locator("td.reason").first).not_to_be_empty()
    visit.page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    live.desk.cancel(name)
    expect(row).to_have_count(0)


def test_events_arrive_live_and_hostile_text_stays_text(visit: Visit, live: LiveFleet) -> None:
    expect(visit.page.locator("#live")).to_have_attribute("data-state", "on")
    live.store.commit([], events=[Event(live.clock.now(), "note", HOSTILE)])
    expect(visit.page.locator("#events li", has_text=HOSTILE)).to_have_count(1)
    expect(visit.page.locator("#events img")).to_have_count(0)
    assert visit.page.title() == "Dure"


def test_the_theme_can_be_switched_and_is_remembered(visit: Visit) -> None:
    page = visit.page
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Change between dark and light").click()
    light = page.evaluate(background)
    assert light != dark
    page.reload()
    page.wait_for_selector("#clusters canvas")
    assert page.evaluate(background) == light


def test_the_map_can_be_walked_with_the_keyboard(visit: Visit) -> None:
    page = visit.page
    page.locator("#clusters canvas[tabindex='0']").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).to_be_visible()
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tip")).not_to_have_text(first)
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()


def test_every_control_is_reached_by_tab_and_shows_its_focus(visit: Visit) -> None:
    page = visit.page
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"skip", "theme", "data"} <= reached


def test_running_workloads_can_be_found_by_name(visit: Visit) -> None:
    page = visit.page
    expect(page.locator("#running tr").first).to_be_visible()
    page.locator("#find").fill("lab")
    expect(page.locator("#running tr", has_text="search-")).to_have_count(0)
    page.locator("#find").fill("no such thing anywhere")
    expect(page.locator("#running tr")).to_have_count(0)


def test_every_chart_is_one_click_from_its_data(visit: Visit) -> None:
    links = visit.page.locator("a.data[href]").evaluate_all("nodes => nodes.map((node) => node.getAttribute('href'))")
    assert len(links) >= 7
    for link in set(links):
        answer = visit.page.request.get(f"{visit.page.url.rstrip('/')}{link}")
        assert answer.ok, link
        # A list, the weights' history, or the shared devices.
        assert {"items", "points", "devices"} & answer.json().keys()


def test_a_browser_without_a_session_gets_no_figures(chromium: Browser, server: Server) -> None:
    context = chromium.new_context()
    page = context.new_page()
    answer = page.goto(server.address.url)
    assert answer is not None
    assert answer.status == 401
    expect(page.get_by_role("heading", name="Sign in to Dure")).to_be_visible()
    context.close()


def test_the_page_asks_nobody_but_its_own_server(visit: Visit, server: Server) -> None:
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.reload()
    visit.page.wait_for_selector("#chart-cost .main-svg")
    assert asked
    assert all(url.startswith((server.address.url, "data:", "blob:")) for url in asked)


def test_static_files_come_from_the_list_only(server: Server) -> None:
    headers = {"authorization": "Bearer a-token-for-browser-tests"}
    for path in ("/static/../pages.py", "/static/%2e%2e%2fpages.py", "/static/none.js"):
        assert httpx.get(f"{server.address.url}{path}", headers=headers).status_code == 404


def test_what_placement_has_learned_is_shown_over_time(visit: Visit, live: LiveFleet, shots: Path) -> None:
    panel = visit.page.locator("#weights")
    expect(panel).to_be_visible()
    expect(panel.locator("#weights-now tr").first).to_contain_text("SLO")
    expect(panel.locator("#weights-now tr").nth(1)).to_contain_text("Locality")
    expect(panel.locator("#weights-now tr").nth(2)).to_contain_text(re.compile(r"\S+/\S+"))
    expect(panel.locator("#chart-weights .main-svg").first).to_be_visible()
    panel.scroll_into_view_if_needed()
    panel.screenshot(path=shots / "weights.png")
    assert visit.complaints == []


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desk", "phone"])
def test_one_shared_device_is_shown_with_its_tenants_and_can_be_steered(
    size: tuple[int, int], chromium: Browser, live: LiveFleet
) -> None:
    scene = Scene()
    scene.report(device("b", *NAMES), device("a", "chat"))
    scene.turn()
    app = create_app(live.desk, Keys("a-token-for-browser-tests"), pages=pages(), shares=scene.shared)
    server = Server(app, *open_socket(port=0))
    server.start()
    context = chromium.new_context(viewport={"width": size[0], "height": size[1]})
    visit = Visit(context.new_page())
    page = visit.page
    page.goto(server.login_url())
    panel = page.locator("#share")
    for name in NAMES:
        expect(panel.locator("#share-tenants")).to_contain_text(name)
    expect(page.locator("#share-device")).to_have_value("seoul/b")
    drawn = "node => new Set(node.getContext('2d').getImageData(0, 0, node.width, node.height).data).size"
    assert page.locator("#share-timeline").evaluate(drawn) > 2
    page.locator("#share-policy").select_option("slo")
    expect(page.locator("#share-note")).to_contain_text("policy slo")
    assert scene.shared.fetch_status("seoul/b").policy == "slo"
    page.locator("#share-device").select_option("seoul/a")
    expect(panel.locator("#share-tenants tr")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.complaints == []
    context.close()
    server.stop()
