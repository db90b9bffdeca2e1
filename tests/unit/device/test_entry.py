"""Who is let in on a device: judged in the order of the file, by measured models, with a reason and an offer."""

from __future__ import annotations

import os
import signal
from itertools import permutations
from pathlib import Path

import onnx
import pytest

from dure.adapters.onnx.models import sample_input, write_model
from dure.device.config import DeviceConfig, TenantConfig, app_of, validated
from dure.device.entry import Entry, Scaling
from dure.device.executor import Executor
from dure.device.server import route
from dure.device.words import spoken_in
from dure.model.errors import InvalidInput, NotAllowed
from dure.share.feedback import LASTS_MS
from dure.share.interference import Observation, empty_book
from dure.share.promise import Promise

PATIENCE_S = 120.0


def tenant(name: str, latency_ms: float | None, **more: float) -> TenantConfig:
    return TenantConfig(name, f"{name}.onnx", promise=Promise(latency_ms=latency_ms), **more)  # type: ignore[arg-type]


def entry(*tenants: TenantConfig, memory_mib: int = 0) -> Entry:
    return Entry(DeviceConfig(tenants, memory_mib=memory_mib), empty_book)


def test_time_over_threads_passes_through_what_was_measured() -> None:
    scaling = Scaling(one_ms=8.0, all_ms=3.0, cores=4)
    assert scaling(1.0) == pytest.approx(3.0)
    assert scaling(0.25) == pytest.approx(8.0)
    assert scaling(0.125) == pytest.approx(16.0)
    assert Scaling(5.0, 5.0, 1)(0.5) == pytest.approx(10.0)


def test_the_verdict_does_not_depend_on_whose_model_loads_first() -> None:
    tenants = (tenant("a", 9.0), tenant("b", 9.0), tenant("c", 9.0))
    for order in permutations("abc"):
        judged = entry(*tenants)
        for name in order:
            judged.measured(name, Scaling(10.0, 5.0, 2))
        assert {name for name, v in judged.verdicts.items() if v.admitted} == {"a"}
        assert set(judged.refused) == {"b", "c"}


def test_a_refusal_says_what_is_short_and_what_could_be_promised() -> None:
    judged = entry(tenant("a", 9.0), tenant("b", 9.0))
    judged.measured("a", Scaling(10.0, 5.0, 2))
    assert judged.measured("b", Scaling(10.0, 5.0, 2)) == ("b",)
    verdict = judged.verdicts["b"]
    assert verdict.short == "sms"
    assert verdict.nearest_ms is not None
    again = entry(tenant("a", 9.0), tenant("b", verdict.nearest_ms))
    again.measured("a", Scaling(10.0, 5.0, 2))
    assert again.measured("b", Scaling(10.0, 5.0, 2)) == ()


def test_a_promised_throughput_is_judged_like_the_latency_it_needs() -> None:
    asks = TenantConfig("a", "a.onnx", promise=Promise(throughput_per_s=150.0))
    judged = entry(asks)
    # Even the whole device needs 8 ms for one request.
    assert judged.measured("a", Scaling(16.0, 8.0, 2)) == ("a",)
    assert judged.verdicts["a"].nearest_ms == pytest.approx(8.0)
    modest = entry(TenantConfig("a", "a.onnx", promise=Promise(throughput_per_s=100.0, latency_ms=50.0)))
    assert modest.measured("a", Scaling(16.0, 8.0, 2)) == ()


def test_who_comes_late_is_judged_by_what_was_learnt_of_pairs() -> None:
    book = empty_book()
    judged = Entry(DeviceConfig((tenant("a", None), tenant("b", 9.0))), lambda: book)
    judged.measured("a", Scaling(8.0, 4.0, 2))
    a, b = app_of(tenant("a", None)), app_of(tenant("b", None))
    book = book.learn([Observation(b, a, 0.5, 0.5, 0.3)] * 30)
    assert judged.measured("b", Scaling(8.0, 8.0, 2)) == ("b",)
    unaware = entry(tenant("a", None), tenant("b", 9.0))
    unaware.measured("a", Scaling(8.0, 4.0, 2))
    assert unaware.measured("b", Scaling(8.0, 8.0, 2)) == ()


def test_memory_and_bandwidth_count_too() -> None:
    short = entry(tenant("a", None, memory_mib=600), tenant("b", None, memory_mib=600), memory_mib=1000)
    short.measured("a", Scaling(1.0, 1.0, 1))
    short.measured("b", Scaling(1.0, 1.0, 1))
    assert short.verdicts["b"].short == "memory"
    narrow = entry(tenant("a", None, bandwidth=0.7), tenant("b", None, bandwidth=0.7, load=0.4))
    narrow.measured("a", Scaling(1.0, 1.0, 1))
    narrow.measured("b", Scaling(1.0, 1.0, 1))
    assert narrow.verdicts["b"].admitted
    wide = entry(tenant("a", None, bandwidth=0.7), tenant("b", None, bandwidth=0.7))
    wide.measured("a", Scaling(1.0, 1.0, 1))
    wide.measured("b", Scaling(1.0, 1.0, 1))
    assert wide.verdicts["b"].short == "bandwidth"


def test_memory_is_kept_for_a_tenant_until_it_leaves() -> None:
    batch, critical = (
        tenant("batch", None, memory_mib=600),
        tenant("critical", None, memory_mib=400, reserved_mib=500),
    )
    judged = entry(batch, critical, memory_mib=1000)
    judged.measured("batch", Scaling(1.0, 1.0, 1))
    judged.measured("critical", Scaling(1.0, 1.0, 1))
    assert judged.refused == {"batch": "600 MiB wanted, 500 of 1000 MiB are neither held nor reserved by others"}
    judged.go("critical")
    judged.come(tenant("late", None, memory_mib=600))
    judged.measured("late", Scaling(1.0, 1.0, 1))
    assert judged.verdicts["late"].admitted


def test_more_memory_cannot_be_reserved_than_there_is(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.touch()
    tenants = tuple(TenantConfig(name, str(model), reserved_mib=600) for name in "ab")
    with pytest.raises(InvalidInput, match="1200 MiB are reserved of 1000"):
        validated(DeviceConfig(tenants, memory_mib=1000))
    assert validated(DeviceConfig(tenants, memory_mib=1200)).memory_mib == 1200
    with pytest.raises(InvalidInput, match="memory cannot be negative"):
        validated(DeviceConfig((TenantConfig("a", str(model), reserved_mib=-1),)))


def test_a_daemon_turns_away_what_it_cannot_keep_and_serves_the_rest(tmp_path: Path) -> None:
    model = write_model("recommender", tmp_path / "m.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"this is no model")
    tenants = (
        TenantConfig("good", str(model), promise=Promise(latency_ms=5000.0)),
        TenantConfig("hasty", str(model), promise=Promise(latency_ms=1e-4)),
        TenantConfig("broken", str(broken)),
    )
    executor = Executor(validated(DeviceConfig(tenants, cores=1)))
    try:
        given = sample_input(onnx.load(str(model)))
        assert executor.submit("good", given).result(PATIENCE_S)
        with pytest.raises(NotAllowed, match="could be promised"):
            executor.submit("hasty", given).result(PATIENCE_S)
        with pytest.raises(NotAllowed, match="cannot be loaded"):
            executor.submit("broken", given).result(PATIENCE_S)
        told = {t.name: t.refused for t in route(executor, "GET", "/v1/share/status", {}).tenants}
        assert told["good"] == ""
        assert "could be promised" in told["hasty"]
        assert executor.starts("broken") == 1
        assert executor.ready()
    finally:
        executor.close()


def test_a_process_that_ends_while_it_loads_keeps_nobody_waiting(tmp_path: Path) -> None:
    model = write_model("recommender", tmp_path / "m.onnx")
    executor = Executor(DeviceConfig((TenantConfig("first", str(model)), TenantConfig("good", str(model))), cores=1))
    try:
        os.kill(executor.process_id("first"), signal.SIGKILL)
        given = sample_input(onnx.load(str(model)))
        assert executor.submit("good", given).result(PATIENCE_S)
    finally:
        executor.close()


def test_admission_can_be_switched_off() -> None:
    judged = Entry(DeviceConfig((tenant("a", 1e-6),), admission=False), empty_book)
    assert judged.measured("a", Scaling(1.0, 1.0, 1)) == ()


@pytest.mark.parametrize("wrong", [{"bandwidth": 1.5}, {"load": 0.0}])
def test_parts_that_are_no_parts_are_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    model = tmp_path / "m.onnx"
    model.touch()
    with pytest.raises(InvalidInput, match="parts of one"):
        validated(DeviceConfig((TenantConfig("a", str(model), **wrong),)))  # type: ignore[arg-type]


def test_what_people_said_outlives_the_daemon_and_fades(tmp_path: Path) -> None:
    path = tmp_path / "device.feedback.json"
    spoken_in(path).say("a", "too-slow")
    later = spoken_in(path)
    assert later.target_ms(100.0, "a") == pytest.approx(85.0)
    assert later.target_ms(100.0, "b") == 100.0
    kept = path.read_text()
    at_ms = float(kept.split('"at_ms":')[1].rstrip("}]"))
    path.write_text(kept.replace(str(at_ms), str(at_ms - LASTS_MS)))
    assert spoken_in(path).target_ms(100.0, "a") == 100.0
    path.write_text("{")
    assert spoken_in(path).target_ms(100.0, "a") == 100.0
