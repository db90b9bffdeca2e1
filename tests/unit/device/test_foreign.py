"""Policies of other packages: theirs is the order while they work, and a failure is nobody else's."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from dure.device import board
from dure.device.config import DeviceConfig, TenantConfig
from dure.device.foreign import Foreign, failed
from dure.device.virtual import Load, VirtualDevice
from dure.share.interference import App
from dure.share.policies import POLICIES
from dure.share.squad import Waiting, ordered

SOURCE = """
calls = 0

def longest(waiting, left, need, age, target, weight, out):
    for place, k in enumerate(sorted(range(len(left)), key=lambda k: -left[k])):
        out[k] = place

def failing(*given):
    global calls
    calls += 1
    raise ZeroDivisionError("in a policy")
"""
WAITING = [Waiting(name, App(name), (ms,), ms, 0.0, 1e6) for name, ms in (("long", 9.0), ("short", 1.0))]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "foreign_policy_of_a_test.py").write_text(SOURCE)
    info = tmp_path / "foreign_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-policy\nVersion: 1.0\n")
    lines = [f"{name} = foreign_policy_of_a_test:{name}" for name in ("longest", "failing", "absent")]
    (info / "entry_points.txt").write_text("\n".join(["[dure.share.policies]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def policy(name: str) -> Foreign:
    return Foreign(EntryPoint(name, f"foreign_policy_of_a_test:{name}", "dure.share.policies"))


def test_a_policy_that_works_orders(package: Path) -> None:
    longest = policy("longest")
    assert [one.tenant for one in ordered(WAITING, longest)] == ["long", "short"]
    assert failed(longest) == ""


@pytest.mark.parametrize(
    ("name", "why"), [("failing", "ZeroDivisionError: in a policy"), ("absent", "has no attribute")]
)
def test_one_that_fails_is_set_aside_and_the_default_orders(package: Path, name: str, why: str) -> None:
    broken = policy(name)
    for _ in range(3):
        assert ordered(WAITING, broken) == ordered(WAITING, POLICIES["slack-guarded"])
    assert why in failed(broken)
    if name == "failing":
        assert import_module("foreign_policy_of_a_test").calls == 1


def test_a_device_goes_on_and_says_so(package: Path) -> None:
    loads = {"long": Load((4.0,) * 5, (1.0,) * 5, 0.0), "short": Load((1.0,), (1.0,), 0.0)}
    config = DeviceConfig(tuple(TenantConfig(name, name) for name in loads), name="d", policy="failing")
    device = VirtualDevice(config, loads)
    device.play(10.0)
    assert board.squads(device).squads
    told = board.status(device).set_aside
    assert told["failing"] == "ZeroDivisionError: in a policy"
    assert "longest" not in told
