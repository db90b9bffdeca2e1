"""The dashboard in a browser while the examples run in real containers: where they are, what they hold, their moves.

The page is opened once, before there is anything to see; what it shows later has come to it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright

from lab.lab import Lab
from tests.browser.conftest import FLAGS, Visit
from tests.browser.find_chromium import find
from tests.kube.world import until
from tests.node.plane_world import PATIENCE_S, example, plane_lab, plane_world
from tests.node.serving import Client, node_processes, serving_image, training_image

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.browser, pytest.mark.slow]
SLICES = 4
PATIENCE_MS = 1000 * PATIENCE_S


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    if find() is None:
        pytest.skip("no Chromium on this machine; 'make browser' installs one or says why not")
    with plane_lab(serving_image(tmp_path / "serving"), training_image(tmp_path / "training")) as made:
        yield made


@contextlib.contextmanager
def visiting(address: str) -> Iterator[Visit]:
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find(), args=list(FLAGS)) as browser,
    ):
        visit = Visit(browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark"))
        visit.page.set_default_timeout(PATIENCE_MS)
        visit.page.goto(address)
        expect(visit.page.locator("#live")).to_have_attribute("data-state", "on", timeout=PATIENCE_MS)
        visit.page.evaluate("window.stayed = true")
        yield visit
        assert visit.page.evaluate("window.stayed"), "the page was not loaded again"
        assert visit.complaints == []


def test_the_examples_are_seen_as_they_run_on_real_nodes_and_so_is_a_move(lab: Lab, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        for name in lab:
            stack.enter_context(node_processes(lab[name], tmp_path / name, SLICES))
        world = stack.enter_context(plane_world(lab, tmp_path, SLICES))
        page = stack.enter_context(visiting(world.login_url())).page
        assert sorted(page.locator(".cluster h3").all_inner_texts()) == ["a", "b"]
        expect(page.locator("#running tr")).to_have_count(0)

        world.submit(example("serving"))
        ranker = row(page, "ranker")
        told(ranker, "search", "serving", "a/slices", "virtual-slice", "running", "1/1")
        heard(page, "ranker runs on a/slices")
        world.submit(fit(tmp_path / "checkpoints"))
        told(row(page, "fit"), "search", "training", re.compile("[ab]/slices"), "virtual-slice", "running")
        assert re.search(
            r"real-0\S* · virtual-slice · exclusive\nranker \(search\) whole", slice_of(page, "a", "ranker")
        )
        expect(page.locator("#used")).to_have_text("2", timeout=PATIENCE_MS)

        # Nobody has asked it yet, so there is no figure; what the pod counts is soon on the page.
        expect(page.locator("#slo")).to_have_text("–")
        [pod] = [one for one in world.pods("a") if one["metadata"]["name"].startswith("ranker")]
        assert [Client(pod["status"]["podIP"]).infer() for _ in range(50)] == [200] * 50
        expect(page.locator("#slo")).to_have_text(re.compile(r"\d"), timeout=PATIENCE_MS)

        world.price(a=3.0, b=2.2)
        heard(page, "ranker warms up in b/slices")
        heard(page, "ranker is served from b/slices now")
        told(ranker, "search", "serving", "b/slices", "virtual-slice", "running", "1/1")
        assert "(search) whole" in slice_of(page, "b", "ranker")
        page.screenshot(path=tmp_path / "dashboard.png", full_page=True)
        ranker.get_by_role("button", name="ranker").click()
        expect(page.get_by_role("dialog")).to_contain_text("tenant search", timeout=PATIENCE_MS)


def fit(folder: Path) -> dict[str, object]:
    """The example, long enough to be looked at, with its checkpoints in a folder of the test."""
    document = example("training")
    spec = document["spec"]["template"]["spec"]
    spec["containers"][0]["args"] += ["--pause", "15"]
    spec["volumes"][0]["hostPath"]["path"] = str(folder)
    return document


def row(page: Page, name: str) -> Locator:
    return page.locator("#running tr", has_text=name)


def told(found: Locator, *cells: str | re.Pattern[str]) -> None:
    """What a row says behind the name."""
    for place, text in enumerate(cells, start=1):
        expect(found.locator("td").nth(place)).to_have_text(text, timeout=PATIENCE_MS)


def heard(page: Page, message: str) -> None:
    expect(page.locator("#events li", has_text=message)).to_have_count(1, timeout=PATIENCE_MS)


def slice_of(page: Page, cluster: str, name: str) -> str:
    """What the map of the cluster says of the slice that one holds, found by walking over it with the keyboard."""
    section = page.locator(".cluster", has=page.get_by_role("heading", name=cluster, exact=True))
    seen: list[str] = []

    def found() -> bool:
        seen.clear()
        page.keyboard.press("Escape")
        section.locator("canvas").focus()
        for _ in range(SLICES):
            page.keyboard.press("ArrowRight")
            seen.append(page.locator("#tip").inner_text())
        return any(f"{name} (" in one for one in seen)

    until(found, f"the slice of {name} on the map of {cluster}", PATIENCE_S)
    return next(one for one in seen if f"{name} (" in one)
