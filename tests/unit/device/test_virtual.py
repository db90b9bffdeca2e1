"""The virtual device: the daemon's brain on kernels that take virtual time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.device import board
from dure.device.config import DeviceConfig, TenantConfig
from dure.device.virtual import PARTS, Load, VirtualDevice, true_rho
from dure.model.errors import InvalidInput, NotFound
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
    config = DeviceConfig(tuple(TenantConfig(name, name) for name in loads), name="d")
    device = VirtualDevice(config, loads)
    device.play(40.0)
    spans, bubbles, _, _ = device.record.timeline(0.0)
    assert bubbles == ()
    assert max(s.share for s in spans if s.tenant == "big") == pytest.approx((PARTS - 1) / PARTS)


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
