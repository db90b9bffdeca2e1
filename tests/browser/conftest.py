"""A real Chromium in front of the real server with the embedded fleet; skipped with a reason where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from dure.api.app import create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.embedded.live import LiveFleet
from dure.files.builtin import catalogue, demo_fleet
from dure.web.pages import pages
from tests.browser.find_chromium import find

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with its module: while it is open, Playwright's event loop runs in this thread and no other can."""
    path = find()
    if path is None:
        pytest.skip("no Chromium on this machine; 'make browser' installs one or says why not")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveFleet]:
    """The demo fleet, running fast so that things happen while a test looks."""
    fleet = LiveFleet(demo_fleet(), catalogue(), tmp_path_factory.mktemp("state"), speed=600)
    fleet.turn()
    fleet.start()
    yield fleet
    fleet.stop()


@pytest.fixture(scope="module")
def server(live: LiveFleet) -> Iterator[Server]:
    running = Server(
        create_app(live.desk, Keys("a-token-for-browser-tests"), pages=pages(), shares=live.shares),
        *open_socket(port=0),
    )
    running.start()
    yield running
    running.stop()


class Visit:
    """A page that is signed in, with everything it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._heard(message.type, message.text))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture(params=[(1280, 900, "dark")], ids=["dark"])
def visit(request: pytest.FixtureRequest, chromium: Browser, server: Server) -> Iterator[Visit]:
    """Parametrise indirectly with (width, height, colour scheme) for other screens."""
    width, height, scheme = request.param
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PATIENCE_MS)
    visit = Visit(context.new_page())
    visit.page.goto(server.login_url())
    visit.page.wait_for_selector("#clusters canvas")
    yield visit
    context.close()


@pytest.fixture
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go; pytest prints the folder when a test fails."""
    return tmp_path_factory.getbasetemp() / f"shots-{time.strftime('%H%M')}"
