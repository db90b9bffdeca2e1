"""Tenants on a GPU, without one: what the runtimes are asked for, in which order, and what squads send."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from dure.adapters.nvidia.cuda import MIB, Gpu, look, open_driver
from dure.adapters.nvidia.streams import CudaStreams
from dure.adapters.onnx import gpu as onnx_gpu
from dure.adapters.onnx.cut import Segment
from dure.adapters.onnx.models import KINDS, sample_input, write_model
from dure.adapters.onnx.runner import Runner, session_options, whole_model
from dure.adapters.onnx.worker import Work, reply
from dure.adapters.pieces import HostLap, Lap, Share, Spot
from dure.device import executor as executing
from dure.device.config import DeviceConfig, TenantConfig, validated
from dure.device.executor import Executor
from dure.device.target import Chosen, Shape, chosen, divided, shape_of, work_of
from dure.model.errors import DureError, InvalidInput, NotAllowed, NotFound, Permanent
from dure.share.promise import Promise
from tests.contract.fake_cuda import FakeCuda

PATIENCE_S = 120.0
H100 = Gpu(0, "H100", 81_920, 132, 8, 16, mps=True)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: write_model(kind, folder / f"{kind}.onnx", seed=5) for kind in KINDS}


def tenant(name: str, model: str, **more: Any) -> TenantConfig:
    return TenantConfig(name, model, promise=Promise(latency_ms=60_000.0), **more)


class BoundOnCpu:
    """The GPU's way of running segments, on a device that is here."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._sessions = [
            ort.InferenceSession(one.model, session_options(1), providers=["CPUExecutionProvider"])
            for one in segments
        ]

    def lap(self, share: Share) -> AbstractContextManager[Lap]:
        return HostLap()

    def run(self, tensors: dict[str, Any], index: int, share: Share) -> None:
        onnx_gpu.run_bound(self._sessions[index], self._segments[index], tensors, "cpu", 0)
        assert all(isinstance(tensors[name], ort.OrtValue) for name in self._segments[index].gives)

    def fetch(self, tensor: Any) -> Any:
        return onnx_gpu.fetched(tensor)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_tensors_that_stay_on_the_device_between_segments_give_the_same_bits(
    kind: str, models: dict[str, Path]
) -> None:
    given = sample_input(onnx.load(str(models[kind])), seed=2)
    runner = Runner(models[kind], 5, BoundOnCpu)
    expected = whole_model(models[kind], given)["output"]
    for at in range(len(runner.segments)):
        answer = runner.answer(("run", 1, given if at == 0 else None, at, at + 1, Spot(0, 8)))
        assert answer[0] == "done"
    assert answer[4]["output"].tobytes() == expected.tobytes()
    assert runner._open == {}


def test_inputs_of_another_shape_are_refused_on_a_device_too(models: dict[str, Path]) -> None:
    given = sample_input(onnx.load(str(models["convolution"])))
    runner = Runner(models["convolution"], 3, BoundOnCpu)
    changes: list[Callable[[Any], Any]] = [lambda a: a[:, :2], lambda a: a[0], lambda a: a.astype(np.float64)]
    for change in changes:
        wrong = {name: change(value) for name, value in given.items()}
        assert runner.answer(("run", 1, wrong, 0, 1, 1))[0] == "refused"
    assert runner.answer(("run", 2, given, 0, len(runner.segments), 1))[0] == "done"


def test_time_on_a_gpu_is_the_devices_and_a_lost_context_ends_the_process(models: dict[str, Path]) -> None:
    driver = FakeCuda()
    streams = CudaStreams(driver, look(driver, 0))

    lap = Lap()
    lap.ms, lap.waited_ms, lap.ran_ms = 4.5, 1.0, 2.0

    def answers(kind: str) -> Any:
        return SimpleNamespace(names=["x"], answer=lambda message: (kind, 1, "illegal address", lap, None))

    assert reply(answers("done"), streams, ("run", 1, {"x": 0}, 0, 1, 1))[-4:] == (4.5, None, 0.0, 4.5)
    assert reply(answers("failed"), streams, ("run", 1, None, 0, 1, 1))[0] == "failed"
    driver.broken = True
    with pytest.raises(SystemExit, match="lost: illegal address"):
        reply(answers("failed"), streams, ("run", 1, None, 0, 1, 1))


def test_tensors_that_nobody_wants_any_more_are_dropped(models: dict[str, Path]) -> None:
    runner = Runner(models["transformer"], 6)
    given = sample_input(onnx.load(str(models["transformer"])), seed=2)
    kept = []
    for at in range(len(runner.segments) - 1):
        runner.answer(("run", 1, given if at == 0 else None, at, at + 1, 1))
        kept.append(set(runner._open[1]))
        later = {name for segment in runner.segments[at + 1 :] for name in segment.takes}
        assert kept[-1] <= later | {"output"}
    assert any(kept)


class FakeOrt:
    """The runtime's calls in order; its sessions take the providers that `takes` names."""

    def __init__(self, *, takes: tuple[str, ...] = (onnx_gpu.PROVIDER, "CPUExecutionProvider")) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.OrtAllocatorType = ort.OrtAllocatorType
        self.OrtMemType = ort.OrtMemType
        self.OrtArenaCfg = ort.OrtArenaCfg
        self.OrtMemoryInfo = lambda *args: args
        self._takes = takes

    def get_available_providers(self) -> list[str]:
        return [onnx_gpu.PROVIDER, "CPUExecutionProvider"]

    def preload_dlls(self) -> None:
        self.calls.append(("preload",))

    def create_and_register_allocator_v2(self, provider: str, where: Any, options: Any, arena: Any) -> None:
        self.calls.append(("arena", provider, where[0], where[2], arena.max_mem))

    def InferenceSession(self, model: bytes, settings: Any, providers: list[Any]) -> Any:  # noqa: N802
        shared = settings.get_session_config_entry("session.use_env_allocators") if self._limited() else "0"
        self.calls.append(("session", providers[0][1], shared))
        return SimpleNamespace(
            get_providers=lambda: list(self._takes), disable_fallback=lambda: self.calls.append(("no fallback",))
        )

    def _limited(self) -> bool:
        return any(call[0] == "arena" for call in self.calls)


def test_all_sessions_of_a_tenant_share_its_stream_and_one_arena(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, Path]
) -> None:
    runtime, driver = FakeOrt(), FakeCuda()
    monkeypatch.setattr(onnx_gpu, "ort", runtime)
    streams = CudaStreams(driver, look(driver, 0))
    segments = Runner(models["recommender"], 3).segments
    onnx_gpu.OnCuda(segments, streams, rank=1, memory_mib=256)
    assert runtime.calls[:2] == [("preload",), ("arena", onnx_gpu.PROVIDER, "Cuda", 0, 256 * MIB)]
    sessions = [call for call in runtime.calls if call[0] == "session"]
    assert len(sessions) == len(segments) == runtime.calls.count(("no fallback",))
    for _, options, shared in sessions:
        assert shared == "1"
        assert driver.stream(int(options["user_compute_stream"])).priority == -4
        assert options["gpu_mem_limit"] == str(256 * MIB)
        assert options["device_id"] == "0"


def test_a_session_that_falls_back_to_the_cpu_is_an_error(
    monkeypatch: pytest.MonkeyPatch, models: dict[str, Path]
) -> None:
    monkeypatch.setattr(onnx_gpu, "ort", FakeOrt(takes=("CPUExecutionProvider",)))
    driver = FakeCuda()
    streams = CudaStreams(driver, look(driver, 0))
    with pytest.raises(Permanent, match="cannot use the GPU"):
        onnx_gpu.OnCuda(Runner(models["recommender"], 3).segments, streams)


def config(*tenants: TenantConfig, device: str = "auto") -> DeviceConfig:
    return DeviceConfig(tenants, device=device)


def test_without_a_gpu_auto_is_the_cpu_and_says_why() -> None:
    def none(index: int) -> Gpu:
        raise NotFound("no CUDA driver")

    found = chosen(config(tenant("a", "a.pt2")), none)
    assert found.gpu is None
    assert found.why.startswith("the CPU (")
    assert chosen(config(tenant("a", "a.onnx"), device="cpu"), none) == Chosen(None, "the CPU")


@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_a_gpu_that_was_asked_for_and_is_not_there_is_an_error(device: str) -> None:
    with pytest.raises(Permanent, match=f"device '{device}' was asked for and cannot be used"):
        chosen(config(tenant("a", "a.onnx"), device=device), lambda index: look(FakeCuda(), index + 9))


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CPU", "cuda:1234", ""])
def test_an_unknown_device_is_refused(device: str, models: dict[str, Path]) -> None:
    with pytest.raises(InvalidInput, match="no device"):
        validated(config(tenant("a", str(models["recommender"])), device=device))


def test_the_number_of_the_gpu_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dure.device.target.find_spec", lambda name: object())
    asked: list[int] = []

    def fetch(index: int) -> Gpu:
        asked.append(index)
        return H100

    for device in ("auto", "cuda", "cuda:0", "cuda:7"):
        assert chosen(config(tenant("a", "a.pt2"), device=device), fetch).gpu == H100
    assert asked == [0, 0, 0, 7]


@pytest.mark.parametrize(
    ("gpu", "files", "expected"),
    [
        (None, ("a.onnx",), Shape(3, True, "threads")),
        (Gpu(0, "g", 100, 132, 8, 16), ("a.pt2",), Shape(1, True, "GPUs")),
        (H100, ("a.pt2", "b.pt2"), Shape(8, True, "groups of 16 SMs")),
        (H100, ("a.pt2", "b.onnx"), Shape(8, False, "parts")),
        (Gpu(0, "g", 100, 132, 8, 16), ("a.onnx",), Shape(1, True, "GPUs")),
        (Gpu(0, "g", 100, 132, mps=True), ("a.pt2",), Shape(8, False, "parts")),
    ],
)
def test_a_device_is_divided_as_far_as_its_tenants_can_be(
    gpu: Gpu | None, files: tuple[str, ...], expected: Shape
) -> None:
    config = DeviceConfig(tuple(tenant(name, name) for name in files), cores=3)
    usable = divided(config, gpu) if gpu is not None else None
    assert shape_of(config, usable) == expected
    # Whoever does not divide by groups must not be told of any: a spot of one part would be one group.
    assert usable is None or usable.groups == (expected.parts if expected.unit.startswith("groups") else 0)


def test_an_mps_percentage_is_for_those_without_green_contexts() -> None:
    members = [tenant("a", file, limit=0.25) for file in ("a.pt2", "a.onnx")]
    green, fixed = (work_of(one, 8, divided(DeviceConfig((one,)), H100)) for one in members)
    assert (green.most, fixed.most) == (None, 0.25)
    assert work_of(tenant("a", "a.onnx", limit=0.25), 2, None).most is None
    ranks = [
        work_of(tenant("a", "a.onnx", **more), 8, H100).rank for more in ({"reserved": 0.5}, {}, {"batch": True})
    ]
    assert ranks == [0, 1, 2]


def test_a_tenant_that_cannot_use_the_gpu_is_kept_out_with_the_reason(models: dict[str, Path]) -> None:
    try:
        open_driver()
    except DureError:
        pass
    else:
        pytest.skip("there is a GPU here")
    only = tenant("a", str(models["recommender"]))
    executor = Executor(DeviceConfig((only,)), gpu=H100)
    try:
        future = executor.submit("a", sample_input(onnx.load(only.model)))
        with pytest.raises(NotAllowed, match=r"cuda-bindings is not installed|no CUDA driver"):
            future.result(PATIENCE_S)
        assert executor.starts("a") == 1
    finally:
        executor.close()


class ThreadLane:
    """A lane whose process is a thread that answers at once and notes where it was sent."""

    sent: list[tuple[str, Spot]]

    def __init__(self, config: TenantConfig, work: Work, ears: Any, processors: frozenset[int]) -> None:
        self.config, self.starts, self.retired, self.process_id = config, 1, False, 0
        self.segments_ms: list[float] = []
        self._ears = ears
        self._mine, self._theirs = Pipe()
        ears.follow(config.name, self._mine)
        threading.Thread(target=self._serve, args=(work,), daemon=True).start()

    def send(self, message: tuple[Any, ...]) -> None:
        ThreadLane.sent.append((self.config.name, message[5]))
        self._mine.send(message)

    def receive(self) -> Any:
        message = self._mine.recv()
        if message[0] == "ready":
            self.segments_ms = list(message[1])
        return message

    def pause(self) -> None:
        raise AssertionError("nobody can be stopped on a GPU")

    def stand_behind(self, behind: bool) -> None:
        assert not behind, "there is one row on a GPU"

    def stop(self) -> None:
        self._ears.forget(self._mine)
        self._mine.close()

    def _serve(self, work: Work) -> None:
        self._theirs.send(("ready", [1.0] * work.pieces, 3.0 * work.pieces))
        try:
            while True:
                _, request, _, _, last, _ = self._theirs.recv()
                outputs = {"output": np.zeros(1)} if last == work.pieces else None
                self._theirs.send(("done", request, last, 1.0, outputs, 0.0, 1.0))
        except (EOFError, OSError):
            return


def run_on(
    monkeypatch: pytest.MonkeyPatch, gpu: Gpu, *tenants: TenantConfig, check: Callable[[Executor], None]
) -> list[tuple[str, Spot]]:
    """What is sent to the tenants' processes while each has a backlog."""
    ThreadLane.sent = []
    monkeypatch.setattr(executing, "Lane", ThreadLane)
    executor = Executor(DeviceConfig(tenants, admission=False), gpu=gpu)
    begin = executor._stage.begin

    def noted(name: str, run: Any, *, behind: bool) -> None:
        begin(name, run, behind=behind)
        check(executor)

    monkeypatch.setattr(executor._stage, "begin", noted)
    try:
        for future in [executor.submit(one.name, {}) for _ in range(10) for one in tenants]:
            future.result(PATIENCE_S)
    finally:
        executor.close()
    return ThreadLane.sent


def test_members_of_squads_have_sms_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[int] = []

    def disjoint(executor: Executor) -> None:
        spots = [run.spot for run in executor._stage.running.values() if run.spot is not None]
        held = [part for spot in spots for part in range(spot.first, spot.first + spot.parts)]
        together.append(len(spots))
        assert len(held) == len(set(held))
        assert set(held) <= set(range(8))
        assert all(run.member.parts == run.spot.parts > 0 for run in executor._stage.running.values() if run.spot)

    sent = run_on(monkeypatch, H100, *(tenant(name, f"{name}.pt2", limit=0.3) for name in "abc"), check=disjoint)
    assert {name for name, _ in sent} == set("abc")
    assert max(together) > 1


def test_without_mps_one_tenant_has_the_whole_gpu_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(executor: Executor) -> None:
        assert len(executor._stage.running) == 1

    tenants = [tenant(name, f"{name}.pt2") for name in "ab"]
    gpu = divided(DeviceConfig(tuple(tenants)), Gpu(0, "g", 16_000, 132, 8, 16, mps=False))
    sent = run_on(monkeypatch, gpu, *tenants, check=alone)
    assert {(spot.first, spot.parts) for _, spot in sent} == {(0, 1)}
    driver = FakeCuda()
    stream = driver.stream(CudaStreams(driver, gpu).handle(Spot(0, 1)))
    assert stream.sms is None, "all of them"
