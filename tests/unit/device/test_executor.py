"""The device daemon on real ONNX models: same bits as alone, and nobody hurt by a bad neighbour."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from dure.adapters.onnx.cut import cut
from dure.adapters.onnx.models import KINDS, sample_input, write_model
from dure.adapters.onnx.runner import Runner, whole_model
from dure.device.config import DeviceConfig, TenantConfig, read_config, validated
from dure.device.entry import Scaling
from dure.device.executor import Executor
from dure.device.idle import Idle
from dure.device.record import Bubble, Record
from dure.device.server import Tensor, route, to_array, to_tensor
from dure.device.tuning import Tuner
from dure.model.errors import DureError, InvalidInput, NotFound, Temporary
from dure.share.promise import Promise

PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: write_model(kind, folder / f"{kind}.onnx", seed=3) for kind in KINDS}


def tenant(name: str, path: Path, **more: Any) -> TenantConfig:
    return TenantConfig(name, str(path), promise=Promise(latency_ms=60_000.0), **more)


@pytest.fixture(scope="module")
def daemon(models: dict[str, Path]) -> Iterator[Executor]:
    tenants = tuple(tenant(kind, path) for kind, path in models.items())
    executor = Executor(validated(DeviceConfig(tenants, cores=2)))
    yield executor
    executor.close()


def test_fewer_threads_are_not_taken_for_neighbours_that_disturb(daemon: Executor, models: dict[str, Path]) -> None:
    """A piece that took as long as its share of the device explains teaches that nobody disturbed it."""
    name, other = sorted(models)[:2]
    given = {kind: sample_input(onnx.load(str(models[kind]))) for kind in (name, other)}
    for kind in given:
        daemon.submit(kind, given[kind]).result(PATIENCE_S)
    daemon._entry._scaling[name] = Scaling(10.0, 5.0, 2)
    assert daemon._entry.stretch(name, 0.5) == pytest.approx(2.0)
    assert daemon._entry.stretch(name, 1.0) == pytest.approx(1.0)
    tuner = Tuner(daemon.config, Record())
    for _ in range(64):
        alone_ms = 4.0 * daemon._entry.stretch(name, 0.5)
        tuner.learn(name, ((other, 0.5),), 0.5, alone_ms, 8.0)
    assert tuner.book.rho(tuner.app(name), tuner.app(other)).mean < 0.03


def test_threads_that_idle_while_somebody_could_run_are_bubbles() -> None:
    record = Record()
    idle = Idle(record)
    for at_ms, share in ((1.0, 0.0), (2.0, 0.5), (3.0, 0.5), (4.0, 1.0), (7.0, 0.0), (9.0, 0.0)):
        idle.note(at_ms, share)
    assert record.timeline(0.0)[1] == (Bubble(2.0, 4.0, 0.5), Bubble(4.0, 7.0, 1.0))


def test_a_lone_thread_has_no_bubbles_and_taking_turns_would(models: dict[str, Path]) -> None:
    """Who is paced idles by its own limit; a squad that leaves somebody out while a thread is free is a bubble."""
    tenants = tuple(tenant(kind, path) for kind, path in models.items())
    executor = Executor(validated(DeviceConfig(tenants, cores=1)))
    try:
        given = {kind: sample_input(onnx.load(str(path))) for kind, path in models.items()}
        for future in [executor.submit(kind, given[kind]) for kind in given for _ in range(3)]:
            future.result(PATIENCE_S)
        assert executor.record.timeline(0.0)[1] == ()
    finally:
        executor.close()


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_segments_in_order_equal_the_whole_model_bit_by_bit(kind: str, pieces: int, models: dict[str, Path]) -> None:
    given = sample_input(onnx.load(str(models[kind])), seed=pieces)
    runner = Runner(models[kind], pieces)
    expected = whole_model(models[kind], given)["output"].tobytes()
    for threads in (1, 2):
        answer = runner.answer(("run", threads, given, 0, len(runner.segments), threads))
        assert answer[4]["output"].tobytes() == expected


def test_models_are_reproducible(tmp_path: Path, models: dict[str, Path]) -> None:
    for kind, path in models.items():
        assert write_model(kind, tmp_path / "again.onnx", seed=3).read_bytes() == path.read_bytes()


def test_every_node_is_in_exactly_one_segment(models: dict[str, Path]) -> None:
    model = onnx.load(str(models["transformer"]))
    for pieces in (1, 2, 7, 1000):
        assert sum(s.nodes for s in cut(model, pieces)) == len(model.graph.node)


def test_a_model_without_nodes_cannot_be_cut() -> None:
    with pytest.raises(InvalidInput, match="no nodes"):
        cut(helper.make_model(helper.make_graph([], "empty", [], [])), 3)


def test_answers_under_load_equal_solo_runs_bit_by_bit(daemon: Executor, models: dict[str, Path]) -> None:
    asked = []
    for number in range(6):
        for kind, path in models.items():
            given = sample_input(onnx.load(str(path)), seed=number)
            asked.append((kind, given, daemon.submit(kind, given)))
    for kind, given, future in asked:
        expected = whole_model(models[kind], given)
        assert future.result(PATIENCE_S)["output"].tobytes() == expected["output"].tobytes()


def test_a_policy_switch_takes_effect_with_the_next_squad_and_loses_nothing(
    daemon: Executor, models: dict[str, Path]
) -> None:
    given = {kind: sample_input(onnx.load(str(path))) for kind, path in models.items()}
    futures = []
    for policy in ("jct", "slo", "hybrid", "slack-guarded", "auto"):
        daemon.set_policy(policy)
        before = len(daemon.record.squads())
        futures = [daemon.submit(kind, given[kind]) for kind in models]
        assert all(f.result(PATIENCE_S) for f in futures)
        used = {squad.policy for squad in daemon.record.squads()[before:]}
        assert used == ({policy} if policy != "auto" else used)
    assert daemon.tuner.automatic


def test_an_unknown_policy_is_refused_with_the_known_ones(daemon: Executor) -> None:
    with pytest.raises(InvalidInput, match="no sharing policy"):
        daemon.set_policy("fastest")


def test_an_unknown_tenant_is_not_found(daemon: Executor) -> None:
    with pytest.raises(NotFound, match="no tenant"):
        daemon.submit("nobody", {})


def test_the_timeline_shows_every_segment_once(daemon: Executor, models: dict[str, Path]) -> None:
    given = sample_input(onnx.load(str(models["recommender"])))
    daemon.submit("recommender", given).result(PATIENCE_S)
    spans = daemon.record.timeline(0.0)[0]
    newest = max(s.request for s in spans if s.tenant == "recommender")
    pieces = sorted((s.first, s.last) for s in spans if s.request == newest)
    assert pieces[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    assert all(s.end_ms >= s.start_ms for s in spans)


def _greedy(path: Path) -> Path:
    """A model that makes a tensor as long as its input says out of nothing."""
    nodes = [
        helper.make_node("ConstantOfShape", ["input"], ["huge"]),
        helper.make_node("ReduceSum", ["huge"], ["output"], keepdims=1),
    ]
    asked = helper.make_tensor_value_info("input", TensorProto.INT64, [1])
    answered = helper.make_tensor_value_info("output", TensorProto.FLOAT, [1])
    model = helper.make_model(
        helper.make_graph(nodes, "greedy", [asked], [answered]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.save(model, str(path))
    return path


def test_a_tenant_beyond_its_memory_hurts_nobody_else(tmp_path: Path, models: dict[str, Path]) -> None:
    greedy = tenant("greedy", _greedy(tmp_path / "greedy.onnx"), memory_mib=256)
    executor = Executor(DeviceConfig((greedy, tenant("good", models["recommender"])), cores=2))
    try:
        bad = executor.submit("greedy", {"input": np.array([2 * 1024**3])})
        given = sample_input(onnx.load(str(models["recommender"])))
        good = executor.submit("good", given)
        assert (
            good.result(PATIENCE_S)["output"].tobytes()
            == whole_model(models["recommender"], given)["output"].tobytes()
        )
        with pytest.raises(Temporary):
            bad.result(PATIENCE_S)
        modest = executor.submit("greedy", {"input": np.array([1000])})
        assert modest.result(PATIENCE_S)["output"] == 0.0
        assert executor.starts("good") == 1
    finally:
        executor.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_tenant_that_crashes_or_hangs_is_started_again(how: signal.Signals, models: dict[str, Path]) -> None:
    victim = tenant("victim", models["convolution"], timeout_ms=1500.0)
    executor = Executor(DeviceConfig((victim, tenant("good", models["recommender"])), cores=2))
    try:
        given = {
            name: sample_input(onnx.load(str(models[k])))
            for name, k in (("victim", "convolution"), ("good", "recommender"))
        }
        for name in given:
            executor.submit(name, given[name]).result(PATIENCE_S)
        os.kill(executor.process_id("victim"), how)
        failed = executor.submit("victim", given["victim"])
        assert executor.submit("good", given["good"]).result(PATIENCE_S)
        with pytest.raises(Temporary):
            failed.result(PATIENCE_S)
        assert executor.submit("victim", given["victim"]).result(PATIENCE_S)
        assert executor.starts("victim") == 2
        assert executor.starts("good") == 1
    finally:
        executor.close()


def test_inputs_that_do_not_fit_are_the_callers_mistake(daemon: Executor, models: dict[str, Path]) -> None:
    given = sample_input(onnx.load(str(models["convolution"])))
    answered = len(daemon.record.answers("convolution", 0.0))
    for wrong, said in (
        ({}, "missing input"),
        (given | {"more": given["input"]}, "unknown more"),
        ({"input": given["input"][:, :2]}, "do not fit"),
    ):
        with pytest.raises(InvalidInput, match=said):
            daemon.submit("convolution", wrong).result(PATIENCE_S)
    assert len(daemon.record.answers("convolution", 0.0)) == answered
    assert daemon.submit("convolution", given).result(PATIENCE_S)
    assert daemon.starts("convolution") == 1


def test_a_reservation_holds_under_overload(models: dict[str, Path]) -> None:
    """Shortest first would let two tenants with a backlog of short requests keep both threads to the end."""
    group = (
        tenant("long", models["convolution"], reserved=0.5),
        *(tenant(name, models["transformer"], batch=True) for name in ("short-1", "short-2")),
    )
    executor = Executor(validated(DeviceConfig(group, cores=2, policy="jct", admission=False)))
    try:
        given = {
            name: sample_input(onnx.load(str(models[kind])))
            for name, kind in (("long", "convolution"), ("short-1", "transformer"), ("short-2", "transformer"))
        }
        for name in given:
            executor.submit(name, given[name]).result(PATIENCE_S)
        backlog = [executor.submit(name, given[name]) for _ in range(60) for name in ("short-1", "short-2")]
        executor.submit("long", given["long"]).result(PATIENCE_S)
        assert not all(future.done() for future in backlog)
        for future in backlog:
            future.result(PATIENCE_S)
    finally:
        executor.close()


def test_closing_fails_what_still_waits(models: dict[str, Path]) -> None:
    executor = Executor(DeviceConfig((tenant("a", models["recommender"]),), cores=1))
    future = executor.submit("a", sample_input(onnx.load(str(models["recommender"]))))
    executor.close()
    assert future.done()
    with pytest.raises(Temporary):
        executor.submit("a", {})


def test_requests_travel_as_json(daemon: Executor, models: dict[str, Path]) -> None:
    given = sample_input(onnx.load(str(models["recommender"])))
    body = {"inputs": {name: msgspec.to_builtins(to_tensor(value)) for name, value in given.items()}}
    answer = route(daemon, "POST", "/v1/tenants/recommender/infer", body)
    found = to_array(answer["outputs"]["output"])
    assert found.tobytes() == whole_model(models["recommender"], given)["output"].tobytes()


@pytest.mark.parametrize(
    "bad", [Tensor("float32", (3,), "AAAA"), Tensor("object", (1,), "AAAA"), Tensor("float32", (1,), "!")]
)
def test_a_tensor_that_makes_no_sense_is_refused(bad: Tensor) -> None:
    with pytest.raises(InvalidInput):
        to_array(bad)


def test_status_feedback_and_squads_are_served(daemon: Executor, models: dict[str, Path]) -> None:
    daemon.submit("recommender", sample_input(onnx.load(str(models["recommender"])), seed=1)).result(PATIENCE_S)
    found = route(daemon, "GET", "/v1/share/status", {})
    assert {t.name for t in found.tenants} == set(KINDS)
    said = route(daemon, "POST", "/v1/share/feedback", {"tenant": "convolution", "word": "too-slow"})
    assert said.target_ms < said.before_ms
    assert route(daemon, "GET", "/v1/share/squads?after=0", {}).squads
    for path in ("/v1/share/nothing", "/"):
        with pytest.raises(NotFound):
            route(daemon, "GET", path, {})
    with pytest.raises(InvalidInput):
        route(daemon, "POST", "/v1/share/feedback", {"tenant": "convolution", "word": "meh"})


def test_a_device_file_is_read_and_checked(tmp_path: Path, models: dict[str, Path]) -> None:
    path = tmp_path / "device.yaml"
    path.write_text(
        f"name: d\npolicy: slo\ntenants:\n"
        f"  - {{name: a, model: {models['recommender']}, promise: {{latency_ms: 20}}}}\n"
        "goals: {rules: [{policy: jct, at_least: {batch: 1}}], otherwise: hybrid, dwell: 3}\n"
    )
    config = read_config(path)
    assert config.goals.otherwise == "hybrid"
    assert config.tenants[0].promise.latency_ms == 20.0


@pytest.mark.parametrize(
    "text",
    ["tenants: []", "tenants: 3", "nonsense: {", "tenants: [{name: a, model: missing.onnx}]", "tenant: []"],
)
def test_a_wrong_device_file_says_what_is_wrong(tmp_path: Path, text: str) -> None:
    path = tmp_path / "device.yaml"
    path.write_text(text)
    with pytest.raises(DureError):
        read_config(path)


def test_a_fault_of_the_loop_fails_those_who_wait_instead_of_letting_them_hang(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = Executor(DeviceConfig((tenant("a", models["recommender"]),), cores=1))
    given = sample_input(onnx.load(str(models["recommender"])))
    try:
        executor.submit("a", given).result(PATIENCE_S)
        assert executor.ready()

        def broken() -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(executor, "_dispatch", broken)
        with pytest.raises(Temporary, match="has stopped: a bug"):
            executor.submit("a", given).result(PATIENCE_S)
        executor._thread.join(PATIENCE_S)
        assert not executor.ready()
        with pytest.raises(Temporary):
            executor.submit("a", given)
    finally:
        executor.close()
