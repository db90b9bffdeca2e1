"""What the plane does by itself with a served model in real containers: it bursts, and moves by price and carbon.

In the end the dashboard shows it, and a training job beside it, as they are.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Locator, expect, sync_playwright

from dure.model.decision import Move, ScaleReplicas
from dure.model.workload import Phase
from lab import images
from lab.lab import Lab
from lab.rest import Json
from tests.browser.conftest import FLAGS
from tests.browser.find_chromium import find
from tests.chaos.waiting import free_port
from tests.kube.world import install_crds, until
from tests.lab.test_faults import ROOT
from tests.node.plane_world import POOL, PlaneWorld, plane_world
from tests.node.serving import node_processes, serving_image
from tests.node.traffic import Load, front, in_time, p95_ms

pytestmark = [pytest.mark.lab, pytest.mark.real_node, pytest.mark.slow]
PATIENCE_S = 240.0
PROMISE_MS = 200.0
# A slice is a small part of one core, so that how much it answers is its share and not how busy the machine is.
SLICES, CORES = 24, 1
CALM, FEW, WIDEST = 1, 6, 160
CALM_PAUSE_S = 0.1
# So many clients for each request per second of a slice, with this pause: one slice answers each of them after 350 ms
# when all are inside, as clients = rate x (pause + answer); two have a quarter of their time left.
SURGE, SURGE_PAUSE_S = 0.85, 0.5
# A machine on which that is no surge after this long gets twice as many.
DOUBLE_S = 40.0
LEAST = 50


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    names = ["a", "b"]
    off = {name: {"kube-scheduler"} for name in names}
    with Lab(names, real_nodes=dict.fromkeys(names, 1), off=off, first=install_crds) as made:
        sources = {"/app": ROOT / "examples" / "training"}
        loaded = (
            serving_image(tmp_path / "image"),
            images.python(tmp_path / "training", "training", ["numpy"], sources, ["/app/train.py"]),
        )
        for name in names:
            for image in loaded:
                made[name].real[0].load(image)
            made[name].kubectl("label", "node", "real-0", f"dure.dev/pool={POOL}")
        yield made


def ranker() -> Json:
    document: Json = yaml.safe_load((ROOT / "examples" / "serving" / "workload.yaml").read_text())
    document["spec"]["slo"]["latency"] = {"p95": f"{PROMISE_MS:.0f}ms"}
    return document


def fit(folder: Path) -> Json:
    """The example as it is, with its checkpoints in a folder of the test."""
    document: Json = yaml.safe_load((ROOT / "examples" / "training" / "workload.yaml").read_text())
    [volume] = document["spec"]["template"]["spec"]["volumes"]
    volume["hostPath"]["path"] = str(folder)
    return document


def home(world: PlaneWorld) -> tuple[str, int, int]:
    """Cluster, replicas wanted, replicas ready."""
    status = world.status("ranker")
    return (status.placement.cluster, status.placement.replicas, status.ready) if status.placement else ("", 0, 0)


def test_the_plane_bursts_a_served_model_and_moves_it_by_price_and_carbon_and_no_request_fails(
    lab: Lab, tmp_path: Path
) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        for name in lab:
            stack.enter_context(node_processes(lab[name], tmp_path / name, SLICES, CORES))
        world = stack.enter_context(plane_world(lab, tmp_path, SLICES))
        world.submit(ranker())
        until(lambda: home(world) == ("a", 1, 1), "the service in the cheaper home", PATIENCE_S)
        stack.enter_context(front(tmp_path, port, "dure-search", "dure.dev/workload=ranker", lab["a"], lab["b"]))
        load = Load("127.0.0.1", port)
        stack.callback(load.stop)
        bursts(world, load)
        moves(world, load, "b", "price", lambda: world.price(a=3.0, b=2.2))
        moves(world, load, "a", "carbon", lambda: world.carbon(a=50, b=900))
        load.stop()
        shown(world, tmp_path)
        steps = [one for one in world.decisions("ranker") if isinstance(one, ScaleReplicas)]
        moved = [one for one in world.decisions("ranker") if isinstance(one, Move)]
    print(f"{len(load.seen)} requests, {len(load.failed)} failed")
    assert load.failed == []
    assert [(one.before, one.after) for one in steps] == [(1, 2), (2, 1)], steps
    assert "late" in steps[0].reason
    assert [one.placement.cluster for one in moved] == ["b", "a"]
    assert all(one.saving > 0 for one in moved)
    assert moved[1].placement.bill.direct > moved[0].placement.bill.direct, "back to the dearer one, for its grid"


def bursts(world: PlaneWorld, load: Load) -> None:
    """A surge gets the second slice at once; it goes back when the surge is over, and those who ask do not notice."""
    load.widen(CALM, CALM_PAUSE_S)
    until(lambda: len(load.seen) >= LEAST, "a calm beginning", PATIENCE_S)
    rate = one_slice(load)
    surge_s = load.now_s

    def granted() -> bool:
        width = SURGE * rate * 2 ** int((load.now_s - surge_s) / DOUBLE_S)
        load.widen(min(WIDEST, max(4, round(width))), SURGE_PAUSE_S)
        return home(world)[1] == 2

    until(granted, "a second slice", PATIENCE_S)
    granted_s = load.now_s
    until(lambda: home(world) == ("a", 2, 2), "its replica", PATIENCE_S)
    ready_s = load.now_s
    # What waited before the second replica came is not its doing; and who is answered in time gives it back soon.
    until(lambda: load.now_s >= ready_s + 2.0, "the end of the queue", PATIENCE_S)
    settled_s = load.now_s
    beyond = len(load.seen) + 2 * LEAST
    until(lambda: len(load.seen) >= beyond, "answers of both", PATIENCE_S)
    calm_s = load.now_s
    load.widen(CALM, CALM_PAUSE_S)
    until(lambda: home(world)[1] == 1, "the slice given back", PATIENCE_S)
    returned_s = load.now_s
    until(lambda: len(world.pods("a")) == 1, "the end of its pod", PATIENCE_S)
    alone, both = load.between(surge_s + 1.0, ready_s), load.between(settled_s, calm_s)
    print(f"one slice answers {rate:.0f} requests/s")
    print(f"slice granted after {granted_s - surge_s:.1f} s, ready after {ready_s - surge_s:.1f} s")
    print(f"p95 in the surge {p95_ms(alone)} ms with one, {p95_ms(both)} ms with two")
    print(f"within the promise: {in_time(alone, PROMISE_MS):.1%}, then {in_time(both, PROMISE_MS):.1%}")
    print(f"given back {returned_s - calm_s:.1f} s after the end of the surge")


def one_slice(load: Load) -> float:
    """Requests per second: so few who ask again at once keep it busy."""
    begin, begin_s = len(load.seen), load.now_s
    load.widen(FEW)
    until(lambda: len(load.seen) >= begin + LEAST, "the rate of one slice", PATIENCE_S)
    return (len(load.seen) - begin) / (load.now_s - begin_s)


def moves(world: PlaneWorld, load: Load, to: str, what: str, change: Callable[[], None]) -> None:
    """The other cluster becomes better: it is warm there before it goes here."""
    before = home(world)[0]
    begin_s = load.now_s
    change()
    until(lambda: world.status("ranker").incoming is not None, "the decision to move", PATIENCE_S)
    decided_s = load.now_s
    assert len(world.pods(before)) == 1
    until(lambda: home(world)[0] == to, "the switch", PATIENCE_S)
    switched_s = load.now_s
    until(lambda: not world.pods(before), "the end of the first home", PATIENCE_S)
    gone_s = load.now_s
    beyond = len(load.seen) + LEAST
    until(lambda: len(load.seen) >= beyond, "answers of the second home", PATIENCE_S)
    assert world.status("ranker").phase is Phase.RUNNING
    assert load.between(switched_s, gone_s)
    print(f"decided {decided_s - begin_s:.1f} s after the {what}, warm {switched_s - decided_s:.1f} s later")
    spans = ((begin_s, decided_s), (decided_s, gone_s), (gone_s, load.now_s))
    earlier, while_moving, after = (p95_ms(load.between(*span)) for span in spans)
    print(f"p95 {earlier} ms before, {while_moving} ms while it moved, {after} ms after")


def shown(world: PlaneWorld, folder: Path) -> None:
    """The dashboard has the service where it is, and a training job from the moment it comes."""
    path = find()
    if path is None:
        print("no Chromium on this machine: nobody looked at the dashboard")
        return
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=list(FLAGS)) as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
        page.set_default_timeout(1000 * PATIENCE_S)
        page.goto(world.login_url())
        row = page.locator("#running tr", has_text="ranker")
        told(row, "serving", "a/slices", "virtual-slice", "running", "1/1")
        assert sorted(page.locator(".cluster h3").all_inner_texts()) == ["a", "b"]
        world.submit(fit(folder / "checkpoints"))
        told(
            page.locator("#running tr", has_text="fit"),
            "training",
            re.compile("[ab]/slices"),
            "virtual-slice",
            "running",
        )
        # Over the slices of its cluster until the one that it holds.
        page.locator("#clusters canvas").first.focus()
        tips: list[str] = []
        while len(tips) < SLICES and "ranker" not in "".join(tips[-1:]):
            page.keyboard.press("ArrowRight")
            tips.append(page.locator("#tip").inner_text())
        page.screenshot(path=folder / "dashboard.png", full_page=True)
        assert "ranker (search)" in tips[-1], tips
        row.get_by_role("button", name="ranker").click()
        expect(page.get_by_role("dialog")).to_contain_text("tenant search")


def told(row: Locator, *cells: str | re.Pattern[str]) -> None:
    """What a row says behind name and tenant."""
    for place, text in enumerate(cells, start=2):
        expect(row.locator("td").nth(place)).to_have_text(text, timeout=1000 * PATIENCE_S)
