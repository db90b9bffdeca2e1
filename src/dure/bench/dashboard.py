"""`dure bench dashboard`: first paint and update rate of the first page in a real browser, by size of the fleet.

The server runs in this process, the browser is a headless Chromium driven by Playwright; both share the machine.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import click

from dure.bench.dashboard_fleet import BigFleet
from dure.bench.result import Cell, Result, Row, bench_options, emit
from dure.files.params import FiniteRange
from dure.model.errors import NotFound

WATCH = """() => {
  window.seen = { frames: 0, longest: 0, blocked: 0, last: performance.now(), begin: performance.now() };
  new PerformanceObserver((list) => { for (const one of list.getEntries()) window.seen.blocked += one.duration; })
    .observe({ entryTypes: ["longtask"] });
  const frame = (now) => {
    window.seen.frames += 1;
    window.seen.longest = Math.max(window.seen.longest, now - window.seen.last);
    window.seen.last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
NEWEST = "() => Number(document.querySelector('#events li').dataset.seq)"


@click.command("dashboard")
@click.option("--devices", "sizes", multiple=True, type=click.IntRange(8, 100_000), help="Default: 100, 1000, 10000.")
@click.option("--updates", default=60.0, show_default=True, type=FiniteRange(0.1, 1000), help="Changes a second.")
@click.option("--seconds", default=10.0, show_default=True, type=FiniteRange(1, 600), help="Of updates.")
@click.option("--chromium", default="/usr/bin/chromium", show_default=True, type=click.Path(path_type=Path))
@bench_options
def command(
    sizes: tuple[int, ...], updates: float, seconds: float, chromium: Path, as_json: bool, report: Path | None
) -> None:
    """First paint, time to the full map, and frames a second while the fleet changes 60 times a second.

    \b
    Example:
      dure bench dashboard --json
      dure bench dashboard --devices 20000 --updates 30
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NotFound("Playwright is not installed", remedy="pip install playwright") from error
    if not chromium.exists():
        raise NotFound(f"no browser at {chromium}", remedy="Give its path: --chromium PATH")
    rows: list[Row] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox", "--disable-gpu"])
        for size in sizes or (100, 1000, 10_000):
            rows.append(_measured(browser, size, updates, seconds))
            click.echo(f"{size} devices: {rows[-1]}", err=True)
        browser.close()
    emit(Result("dashboard", rows, summary(rows)), as_json=as_json, report=report, figures=_figures(rows, report))


def summary(rows: list[Row]) -> dict[str, Cell]:
    return {
        f"{row['input']}_{name}": row[name] for row in rows for name in ("first_paint_ms", "map_ms", "frames_per_s")
    }


def _measured(browser: Any, size: int, updates: float, seconds: float) -> Row:
    from dure.api.app import create_app
    from dure.api.auth import Keys
    from dure.api.server import Server, open_socket
    from dure.web.pages import pages

    world = BigFleet(size)
    server = Server(create_app(world.desk, Keys("bench-token"), pages=pages()), *open_socket(port=0))
    server.start()
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(server.login_url())
    page.wait_for_selector("#clusters canvas")
    # Signed in and warm, as on any later visit: that is the one that counts.
    page.goto(server.address.url)
    page.wait_for_function("() => document.querySelectorAll('#running tr').length > 0")
    shown_ms = page.evaluate("() => performance.now()")
    paint_ms = page.evaluate(PAINT)
    page.wait_for_timeout(1500)
    changes = _shaken(world, page, updates, seconds)
    context.close()
    server.stop()
    return {
        "policy": "dure", "input": f"{size}_devices", "seed": 1, "devices": size,
        "first_paint_ms": round(paint_ms), "map_ms": round(shown_ms), **changes,
    }  # fmt: skip


def _shaken(world: BigFleet, page: Any, updates: float, seconds: float) -> dict[str, Cell]:
    """Change the fleet from another thread while the page counts its frames."""
    ended, made = threading.Event(), 0

    def shake() -> None:
        nonlocal made
        begin = time.perf_counter()
        while not ended.is_set():
            world.shake(made)
            made += 1
            ended.wait(max(0.0, begin + made / updates - time.perf_counter()))

    page.evaluate(WATCH)
    first = page.evaluate("() => document.querySelectorAll('#events li').length") and page.evaluate(NEWEST)
    thread = threading.Thread(target=shake, name="shake", daemon=True)
    began = time.perf_counter()
    thread.start()
    page.wait_for_timeout(seconds * 1000)
    ended.set()
    thread.join()
    taken = time.perf_counter() - began
    seen = page.evaluate("() => ({ ...window.seen, spent: performance.now() - window.seen.begin })")
    page.wait_for_timeout(700)
    told = page.evaluate(NEWEST) - (first or 0)
    return {
        "updates_per_s": round(made / taken, 1),
        "shown_per_s": round(told / taken, 1),
        "frames_per_s": round(1000 * seen["frames"] / seen["spent"], 1),
        "longest_frame_ms": round(seen["longest"]),
        "blocked_part": round(seen["blocked"] / seen["spent"], 3),
    }


def _figures(rows: list[Row], report: Path | None) -> list[object]:
    if report is None:
        return []
    import plotly.graph_objects as go

    figure = go.Figure()
    for name in ("first_paint_ms", "map_ms", "longest_frame_ms"):
        figure.add_bar(x=[row["input"] for row in rows], y=[row[name] for row in rows], name=name)
    figure.update_layout(yaxis_title="ms", barmode="group")
    return [figure]
