"""The shared devices of the embedded fleet: they follow the pods, keep what people said, and cost nothing unasked."""

from __future__ import annotations

import subprocess
import sys

import pytest
from msgspec.structs import replace

from dure.adapters.memory.store import MemoryStore
from dure.device.board import Feedback
from dure.device.record import Record
from dure.device.tuning import Tuner
from dure.embedded.sharing import SharedFleet
from dure.embedded.tenancy import shared_devices, tenancy
from dure.files.builtin import catalogue
from dure.model.accelerator import ShareMode
from dure.model.cluster import Slice
from dure.model.errors import NotFound, Temporary
from dure.model.report import DeviceView, Held, Report
from dure.model.workload import Workload, WorkloadRecord, WorkloadStatus
from dure.plane.bursting import FEEDBACK_SETTING
from dure.share.feedback import LASTS_MS
from dure.watch.drift import Pair, drift

NAMES = ("chat", "embed", "render")


class Scene:
    """A store with one cluster, and clocks to turn by hand."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.fleet_s = 1000.0
        self.real_s = 0.0
        templates = catalogue().templates
        for name, template in zip(NAMES, ("serve-detector", "serve-embed", "render-images"), strict=True):
            self.submit(replace(templates[template], name=name, tenant="search"))
        self.shared = SharedFleet(self.store, lambda: self.fleet_s, lambda: self.real_s)

    def submit(self, workload: Workload) -> None:
        self.store.create_workload(WorkloadRecord(workload.name, workload, WorkloadStatus(submitted_s=0.0)))

    def report(self, *devices: DeviceView) -> None:
        self.fleet_s += 1.0
        self.store.write_report(Report("seoul", self.fleet_s, str(self.fleet_s), (), (), devices))

    def turn(self) -> None:
        self.real_s += 10.0
        self.shared.turn()


def device(name: str, *workloads: str, mode: ShareMode = ShareMode.MPS) -> DeviceView:
    held = tuple(
        Held(Slice(name, mode, compute_milli=300), f"{workload}-{i}", workload, "search")
        for i, workload in enumerate(workloads)
    )
    return DeviceView(name, f"{name}-node", "pool", "t4", mode, held=held)


def _templates() -> dict[str, Workload]:
    known = {"chat": "serve-detector", "embed": "serve-embed"}
    return {name: replace(catalogue().templates[one], name=name, tenant="search") for name, one in known.items()}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_devices_with_walls_or_without_tenants_are_left_out() -> None:
    report = Report(
        "c", 0.0, "1", (), (), (device("a", "chat"), device("b", "chat", mode=ShareMode.MIG), device("empty"))
    )
    assert list(shared_devices([report])) == ["c/a"]


def test_two_pods_of_one_workload_are_told_apart() -> None:
    spec = replace(catalogue().templates["serve-embed"], name="embed", tenant="search")
    found = tenancy("c/a", device("a", "embed", "embed", "stranger"), {"embed": spec})
    assert found is not None
    assert [t.name for t in found[0].tenants] == ["embed-0", "embed-1"]
    assert tenancy("c/a", device("a", "stranger"), {}) is None


def test_a_fleet_without_shared_devices_says_so(scene: Scene) -> None:
    scene.turn()
    assert scene.shared.list_devices() == ()
    assert scene.shared.fetch_view(100.0).status is None
    with pytest.raises(Temporary, match="no device of the fleet is shared"):
        scene.shared.fetch_status()


def test_the_one_with_the_most_promises_is_shown_and_plays(scene: Scene) -> None:
    scene.report(device("a", "render"), device("b", *NAMES))
    scene.turn()
    status = scene.shared.fetch_status()
    assert status.device == "seoul/b"
    assert {t.name for t in status.tenants} == set(NAMES)
    view = scene.shared.fetch_view(200.0, "gone/for-ever")
    assert view.devices == ("seoul/a", "seoul/b")
    assert view.timeline is not None
    assert view.timeline.spans
    assert view.timeline.squads
    before = view.timeline.now_ms
    scene.turn()
    assert scene.shared.fetch_timeline(10.0).now_ms > before
    with pytest.raises(NotFound, match="no shared device"):
        scene.shared.fetch_status("seoul/z")


def test_a_policy_set_by_hand_stays_when_tenants_come_and_go(scene: Scene) -> None:
    scene.report(device("b", "chat", "embed"))
    scene.turn()
    assert not scene.shared.set_policy("jct", "seoul/b").automatic
    scene.report(device("b", *NAMES))
    scene.turn()
    status = scene.shared.fetch_status("seoul/b")
    assert status.policy == "jct"
    assert len(status.tenants) == 3
    assert {s.policy for s in scene.shared.fetch_squads(device="seoul/b").squads} == {"jct"}


def test_feedback_is_recorded_outlives_the_process_and_is_undone_after_a_while(scene: Scene) -> None:
    scene.report(device("b", *NAMES))
    scene.turn()
    moved = scene.shared.say(Feedback("embed", "too-slow"))
    assert moved.target_ms == pytest.approx(0.85 * moved.before_ms)
    assert "embed" in (scene.store.fetch_setting(FEEDBACK_SETTING) or "")
    assert any("too-slow" in event.message for event in scene.store.list_events())
    again = SharedFleet(scene.store, lambda: scene.fleet_s, lambda: scene.real_s)
    again.turn()
    targets = {t.name: t.target_ms for t in again.fetch_status().tenants}
    assert targets["embed"] == pytest.approx(moved.target_ms)
    scene.fleet_s += LASTS_MS / 1000.0
    targets = {t.name: t.target_ms for t in again.fetch_status().tenants}
    assert targets["embed"] == pytest.approx(moved.before_ms)
    with pytest.raises(NotFound, match="no shared device runs"):
        again.say(Feedback("nobody", "fine"))


def test_neither_a_simulation_nor_the_start_of_the_server_loads_the_kernels_of_share() -> None:
    code = (
        "import sys; import dure.embedded.live, dure.embedded.week, dure.api.app; "
        "sys.exit(any(m.startswith('dure.share.policies') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_what_equation_1_foretold_is_kept_with_what_came_of_it(scene: Scene) -> None:
    scene.report(device("b", *NAMES))
    assert scene.shared.list_foretold() == ()
    for _ in range(12):
        scene.turn()
    told = scene.shared.list_foretold()
    models = {record.spec.model for record in scene.store.list_workloads()}
    assert {pair.group for pair in told} <= models
    assert all(pair.at_s == scene.fleet_s for pair in told)
    for found in drift("sharing", told):
        assert found.pairs >= 8
        # The virtual device obeys equation 1, so what was learnt of it must come true.
        assert abs(found.bias) < 0.2


def test_a_device_that_gets_slower_beside_others_than_foretold_shows_as_drift() -> None:
    config = tenancy("c/a", device("a", "chat", "embed"), _templates())
    assert config is not None
    tuner = Tuner(config[0], Record())
    one, other = (tenant.name for tenant in config[0].tenants)
    for _ in range(20):
        tuner.learn(one, [(other, 0.5)], 0.5, alone_ms=10.0, spent_ms=10.0)
    for _ in range(20):
        tuner.learn(one, [(other, 0.5)], 0.5, alone_ms=10.0, spent_ms=40.0)
    pairs = [Pair(float(at), "m", told.predicted_ms, told.spent_ms) for at, told in enumerate(tuner.foretold)]
    (found,) = drift("sharing", pairs)
    assert found.since_s == 20.0
    assert found.now is not None
    assert found.now > 0.5
