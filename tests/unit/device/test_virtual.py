"""The virtual device: the daemon's brain on kernels that take virtual time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.device import board
from dure.device.config import DeviceConfig, TenantConfig, known_policies
from dure.device.record import Record
from dure.device.tuning import Tuner
from dure.device.virtual import PARTS, Load, VirtualDevice, true_rho
from dure.model.errors import InvalidInput, NotFound
from dure.share.choose import Goals, Rule
from dure.share.policies import POLICIES
from dure.share.promise import Promise
from tests.unit.device.loads import CONFIG, LOADS, busy_device


def test_same_seed_and_calls_give_the_same_bytes() -> None:
    seen = []
    for _ in range(2):
        device = busy_device()
        device.play(100.0)
        device.play(150.0)
        seen.append(msgspec.json.encode((board.status(device), board.timeline(device, 250.0))))
    assert seen[0] == seen[1]


@given(st.integers(0, 50), st.floats(0.1, 120.0))
def test_the_device_is_never_given_out_twice_and_no_work_is_lost(seed: int, span_ms: float) -> None:
    device = busy_device(seed)
    device.play(span_ms)
    assert device.now_ms() == pytest.approx(span_ms)
    spans, bubbles, _, _ = device.record.timeline(0.0)
    moments = sorted({s.start_ms for s in spans})
    for at in moments:
        held = sum(s.share for s in spans if s.start_ms <= at < s.end_ms)
        held += sum(b.share for b in bubbles if b.start_ms <= at < b.end_ms)
        assert held <= 1.0 + 1e-9
    for name, load in LOADS.items():
        ended = {s.request for s in spans if s.tenant == name and s.last == len(load.segments_ms)}
        assert len(device.record.answers(name, 0.0)) == len(ended)


def test_sms_that_one_does_not_need_go_to_the_others_at_once() -> None:
    loads = {"small": Load((5.0,), (1 / PARTS,), 0.0), "big": Load((5.0,), (1.0,), 0.0)}
    config = DeviceConfig(tuple(TenantConfig(name, name) for name in loads), name="d", policy="jct")
    device = VirtualDevice(config, loads)
    device.play(40.0)
    spans, bubbles, _, _ = device.record.timeline(0.0)
    assert bubbles == ()
    beside = [s for s in spans if s.tenant == "big" and any(o.start_ms < s.end_ms and s.start_ms < o.end_ms
                                                            for o in spans if o.tenant == "small")]  # fmt: skip
    assert beside
    assert {round(s.share * PARTS) for s in beside} == {PARTS - 1}


def test_a_policy_is_in_force_from_the_next_squad_and_nothing_is_lost() -> None:
    device = busy_device()
    device.play(60.0)
    before = board.squads(device).squads[-1].number
    waiting = device.waiting()
    device.set_policy("jct")
    assert device.waiting() == waiting
    device.play(60.0)
    assert {s.policy for s in board.squads(device, before).squads} == {"jct"}
    with pytest.raises(InvalidInput, match="no sharing policy"):
        device.set_policy("fastest")
    device.set_policy("auto")
    assert board.status(device).automatic


def test_the_brain_learns_how_much_neighbours_disturb() -> None:
    loads = {"a": Load((2.0,) * 4, (0.5,) * 4, 0.0), "b": Load((2.5,) * 4, (0.5,) * 4, 0.0)}
    config = DeviceConfig(tuple(TenantConfig(n, f"model-{n}") for n in loads), name="d", policy="slo")
    device = VirtualDevice(config, loads)
    unknown = device.tuner.book.rho(device.tuner.app("a"), device.tuner.app("b"))
    device.play(1500.0)
    learnt = device.tuner.book.rho(device.tuner.app("a"), device.tuner.app("b"))
    truth = true_rho("model-a", "model-b")
    assert abs(learnt.mean - truth) < max(0.02, 0.5 * abs(unknown.mean - truth))
    assert learnt.sd < unknown.sd


def test_a_missed_promise_raises_the_weight() -> None:
    loads = {"late": Load((10.0,), (1.0,), 60.0), "job": Load((10.0,), (1.0,), 0.0)}
    tenants = (TenantConfig("late", "m", promise=Promise(latency_ms=1.0)), TenantConfig("job", "n", batch=True))
    device = VirtualDevice(DeviceConfig(tenants, name="d"), loads)
    device.play(4000.0)
    assert device.tuner.weights["late"] > 1.0 > device.tuner.weights["job"]
    assert [p.weights["late"] for p in board.timeline(device, 1.0).weights][-1] == device.tuner.weights["late"]


def test_feedback_moves_a_target_on_the_clock_it_was_given() -> None:
    device = busy_device()
    moved = board.say(device, board.Feedback("chat", "too-slow"))
    assert moved.before_ms == 60.0
    assert moved.target_ms == pytest.approx(51.0)
    with pytest.raises(NotFound, match="no tenant"):
        board.say(device, board.Feedback("nobody", "fine"))
    with pytest.raises(InvalidInput, match="not feedback"):
        board.say(device, board.Feedback("chat", "meh"))


def test_what_was_learnt_survives_a_change_of_tenants() -> None:
    device = busy_device()
    device.play(1500.0)
    device.set_policy("slo")
    fewer = DeviceConfig(CONFIG.tenants[:2], name=CONFIG.name)
    after = VirtualDevice(fewer, {name: LOADS[name] for name in ("chat", "embed")})
    after.tuner.inherit(device.tuner)
    assert after.tuner.book is device.tuner.book
    assert after.tuner.policy == "slo"
    assert after.tuner.weights["chat"] == device.tuner.weights["chat"]


def test_a_service_that_is_flooded_turns_requests_away_instead_of_growing() -> None:
    loads = {"flood": Load((50.0,), (1.0,), 500.0)}
    device = VirtualDevice(DeviceConfig((TenantConfig("flood", "m"),), name="d"), loads)
    device.play(1000.0)
    assert device.waiting()["flood"] <= 64
    assert any(not answer.ok for answer in device.record.answers("flood", 0.0))


def test_reservations_and_limits_of_a_device_file_hold_whoever_goes_first() -> None:
    loads = {"long": Load((4.0,) * 20, (1.0,) * 20, 0.0), "short": Load((1.0,) * 2, (1.0,) * 2, 0.0)}
    tenants = (TenantConfig("long", "long", reserved=0.5), TenantConfig("short", "short"))
    device = VirtualDevice(DeviceConfig(tenants, name="d", policy="jct"), loads)
    device.play(60.0)
    # Shortest first alone would leave the long one nothing while the short one has work.
    assert min(s.share for s in device.record.timeline(0.0)[0] if s.tenant == "long") == pytest.approx(0.5)
    tenants = (TenantConfig("long", "long"), TenantConfig("short", "short", limit=0.25))
    device = VirtualDevice(DeviceConfig(tenants, name="d", policy="jct"), loads)
    device.play(60.0)
    spans = device.record.timeline(0.0)[0]
    assert max(s.share for s in spans if s.tenant == "short") == pytest.approx(5 / PARTS)
    assert max(s.share for s in spans if s.tenant == "long") >= 13 / PARTS


def test_what_was_learnt_of_pairs_and_who_fits_whom_is_shown() -> None:
    device = busy_device()
    before = {(p.tenant, p.other): p for p in board.status(device, pairs=True).pairs}
    names = sorted(LOADS)
    assert set(before) == {(a, b) for a in names for b in names if a != b}
    device.play(1500.0)
    after = {(p.tenant, p.other): p for p in board.status(device, pairs=True).pairs}
    assert any(after[pair].sd < before[pair].sd / 2 for pair in before)
    assert all(p.together > 0.0 for p in after.values())


def test_who_draws_much_bandwidth_is_expected_to_disturb_before_it_was_seen() -> None:
    tenants = (TenantConfig("a", "a", bandwidth=0.9), TenantConfig("b", "b", bandwidth=0.8))
    calm = (TenantConfig("a", "a", bandwidth=0.1), TenantConfig("b", "b", bandwidth=0.1))
    rho = {}
    for name, group in (("much", tenants), ("little", calm)):
        tuner = Tuner(DeviceConfig(group, name="d"), Record())
        rho[name] = tuner.book.rho(tuner.app("a"), tuner.app("b")).mean
    assert rho["much"] > 1.2 * rho["little"]


def test_a_policy_of_an_installed_package_decides_and_cannot_replace_a_built_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_policy.py").write_text(
        "def last_first(waiting, left, need, age, target, weight, out):\n"
        "    order = sorted(range(len(left)), key=lambda k: -left[k])\n"
        "    for place, k in enumerate(order):\n"
        "        out[k] = place\n"
    )
    info = tmp_path / "own_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-policy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dure.share.policies]\nlongest = own_policy:last_first\njct = own_policy:last_first\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert known_policies()["jct"] is POLICIES["jct"]
    loads = {"long": Load((4.0,) * 5, (1.0,) * 5, 0.0), "short": Load((1.0,), (1.0,), 0.0)}
    first = {}
    for policy in ("longest", "jct"):
        config = DeviceConfig(tuple(TenantConfig(name, name) for name in loads), name="d", policy=policy)
        device = VirtualDevice(config, loads)
        device.play(10.0)
        first[policy] = board.squads(device).squads[0].members[0][0]
    assert first == {"longest": "long", "jct": "short"}


def test_the_goals_of_a_device_file_choose_the_policy_of_later_squads() -> None:
    goals = Goals((Rule("jct", at_least={"batch": 1.0}),), otherwise="slo", dwell=2)
    loads = {"a": Load((2.0,) * 4, (0.8,) * 4, 100.0), "b": Load((3.0,) * 4, (0.8,) * 4, 50.0)}
    for batch, then in ((True, "jct"), (False, "slo")):
        tenants = tuple(TenantConfig(name, name, batch=batch) for name in loads)
        device = VirtualDevice(DeviceConfig(tenants, name="d", goals=goals), loads)
        device.play(3200.0)
        used = [squad.policy for squad in board.squads(device).squads]
        assert used[-1] == then
        # One change at most, and it waits until the rule has held for two windows.
        assert sorted(set(used), key=used.index) == ["slo", then][: 1 + batch]
        assert all(device.record.answers(name, 0.0) for name in loads)
