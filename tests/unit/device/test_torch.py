"""The PyTorch backend: the same bits in pieces as in one; runs where torch is installed (extra `torch`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from dure.adapters.nvidia.cuda import look
from dure.adapters.nvidia.streams import CudaStreams
from dure.adapters.onnx.models import sample_input, write_model
from dure.adapters.onnx.worker import Work, loaded
from dure.adapters.pieces import Spot
from dure.adapters.torch.code import Code, made
from dure.device.config import DeviceConfig, TenantConfig, validated
from dure.device.executor import Executor
from dure.model.errors import InvalidInput, Permanent
from dure.share.promise import Promise
from tests.contract.fake_cuda import FakeCuda

PATIENCE_S = 300.0
torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dure[torch]'")


NET = """
import torch

def make():
    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, padding=1),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 16 * 16, 32),
        torch.nn.GELU(),
        torch.nn.Linear(32, 5),
    ).eval()
    return net, {"input": torch.zeros(1, 3, 16, 16)}
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The net as code that a dispatch hook cuts."""
    path = tmp_path_factory.mktemp("code") / "net.py"
    path.write_text(NET)
    return f"{path}:make"


@pytest.fixture(scope="module")
def program(code: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same net as an exported program."""
    net, example = made(Code(*code.rsplit(":", 1)))[:2]
    path = tmp_path_factory.mktemp("torch") / "net.pt2"
    torch.export.save(torch.export.export(net, (example["input"],)), str(path))
    return path


@pytest.fixture(params=["exported", "eager"])
def model(request: pytest.FixtureRequest, program: Path, code: str) -> str:
    """Both ways in keep the same contract."""
    return str(program) if request.param == "exported" else code


def runner_of(model: Path | str, pieces: int, *, exact: bool = True) -> Any:
    return loaded(Work(str(model), pieces, exact=exact, code=".py" in str(model)))[0]


def given(runner: Any, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((1, 3, 16, 16)).astype(np.float32) for name in runner.names}


def whole_program(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    """The program's outputs in one piece: what segmented runs must equal."""
    program: Any = torch.export.load(str(path)).module()
    names = [node.target for node in program.graph.nodes if node.op == "placeholder"]
    with torch.no_grad():
        values = program(*(torch.from_numpy(np.array(inputs[name])) for name in names))
    listed = values if isinstance(values, (tuple, list)) else (values,)
    return {f"output{i or ''}": value.numpy() for i, value in enumerate(listed)}


@pytest.mark.parametrize("pieces", [1, 3, 100])
@pytest.mark.parametrize(("threads", "exact"), [(1, True), (2, True), (2, False)])
def test_pieces_in_order_equal_the_whole_program_bit_by_bit(
    model: str, program: Path, pieces: int, threads: int, exact: bool
) -> None:
    """Exact ones compute with one thread, whatever they are given."""
    runner = runner_of(model, pieces, exact=exact)
    inputs = given(runner, pieces)
    torch.set_num_threads(1 if exact else threads)
    expected = whole_program(program, inputs)["output"].tobytes()
    for at in range(len(runner.segments)):
        answer = runner.answer(("run", 7, inputs if at == 0 else None, at, at + 1, threads))
        assert answer[:3] == ("done", 7, at + 1)
        if answer[4] is not None:
            break
    assert at + 1 >= min(pieces, 7)
    assert answer[4]["output"].tobytes() == expected


def test_a_request_that_makes_no_sense_is_an_answer(model: str) -> None:
    runner = runner_of(model, 2)
    wrong = {name: np.zeros((1, 2), np.float32) for name in runner.names}
    kind, _, why = runner.answer(("run", 1, wrong, 0, 2, 1))
    assert kind == "refused"
    assert "is float32 of [1, 2], it takes float32 of [1, 3, 16, 16]" in why
    assert len(runner.profile(1)) == len(runner.segments)
    assert all(ms >= 0.0 for ms in runner.profile(1))


class RecordingCuda:
    """The few calls of `torch.cuda` that are made, in order; what runs on a stream runs here."""

    def __init__(self, *, there: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._there = there

    def is_available(self) -> bool:
        return self._there

    def set_device(self, index: int) -> None:
        self.calls.append(("device", index))

    def set_per_process_memory_fraction(self, part: float, index: int) -> None:
        self.calls.append(("memory", part, index))

    def ExternalStream(self, handle: int, device: int) -> int:  # noqa: N802
        return handle

    @contextmanager
    def stream(self, stream: int) -> Iterator[None]:
        self.calls.append(("enter", stream))
        yield
        self.calls.append(("leave", stream))


def here(cuda: RecordingCuda, driver: FakeCuda) -> Any:
    """PyTorch's way on a GPU with the program and its values on the CPU."""
    from dure.adapters.torch.gpu import OnCuda

    class Here(OnCuda):
        _device = "cpu"

    return Here(CudaStreams(driver, look(driver, 0)), memory_mib=8192, cuda=cuda)


def test_pieces_on_streams_of_their_spots_equal_the_whole_program(program: Path) -> None:
    from dure.adapters.torch.runner import TorchRunner

    cuda, driver = RecordingCuda(), FakeCuda()
    runner = TorchRunner(program, 3, here(cuda, driver))
    assert cuda.calls == [("device", 0), ("memory", 0.1, 0)]
    inputs = given(runner, 9)
    torch.set_num_threads(1)
    expected = whole_program(program, inputs)["output"].tobytes()
    spots = [Spot(0, 8), Spot(2, 2), Spot(5, 3)]
    for at, spot in enumerate(spots):
        cuda.calls.clear()
        driver.calls.clear()
        answer = runner.answer(("run", 7, inputs if at == 0 else None, at, at + 1, spot))
        assert answer[0] == "done"
        (_, entered), (_, left) = cuda.calls
        assert entered == left
        assert len(driver.stream(entered).sms or range(132)) == (132 if at == 0 else 16 * spot.parts)
        assert driver.calls[-1][0] == "cuEventElapsedTime"
    assert answer[4]["output"].tobytes() == expected


def test_an_operator_that_fails_on_a_stream_is_waited_for(program: Path) -> None:
    from dure.adapters.torch.runner import TorchRunner

    cuda, driver = RecordingCuda(), FakeCuda()
    runner = TorchRunner(program, 2, here(cuda, driver))
    driver.fail("cuEventSynchronize")
    answer = runner.answer(("run", 1, given(runner, 1), 0, 1, Spot(0, 4)))
    assert answer[0] == "failed"
    assert "cuStreamSynchronize" in [call[0] for call in driver.calls[-2:]]
    assert runner.answer(("run", 2, given(runner, 1), 0, 2, Spot(0, 4)))[0] == "done"


def test_a_build_without_cuda_says_so() -> None:
    with pytest.raises(Permanent, match="PyTorch cannot use the GPU"):
        here(RecordingCuda(there=False), FakeCuda())


def test_values_are_dropped_after_their_last_use(program: Path) -> None:
    runner = runner_of(program, 100)
    inputs = given(runner, 4)
    most = 0
    for at in range(len(runner.segments) - 1):
        runner.answer(("run", 7, inputs if at == 0 else None, at, at + 1, 1))
        done = {node for segment in runner.segments[: at + 1] for node in segment}
        kept = [node for node in runner._open[7].env if node in done]
        assert all(any(user not in done for user in node.users) for node in kept)
        most = max(most, len(kept))
    assert 0 < most < len(runner.segments) - 1


def test_programs_share_a_daemon_with_models_and_memory_is_theirs_alone(
    model: str, program: Path, tmp_path: Path
) -> None:
    """A limit counts from what PyTorch maps by itself, which is more than most models need."""
    other = write_model("recommender", tmp_path / "recommender.onnx", seed=3)
    promise = Promise(latency_ms=60_000.0)
    tenants = (
        TenantConfig("torch", model, promise=promise, memory_mib=256, timeout_ms=60_000.0, code=".py" in model),
        TenantConfig("onnx", str(other), promise=promise, memory_mib=256, timeout_ms=60_000.0),
    )
    executor = Executor(validated(DeviceConfig(tenants, cores=2)))
    try:
        inputs = given(runner_of(model, 1), 1)
        asked = [executor.submit("torch", inputs) for _ in range(5)]
        assert executor.submit("onnx", sample_input(onnx.load(str(other)))).result(PATIENCE_S)
        torch.set_num_threads(1)
        expected = whole_program(program, inputs)["output"]
        for future in asked:
            np.testing.assert_array_equal(future.result(PATIENCE_S)["output"], expected)
        wrong = {name: value[:, :2] for name, value in inputs.items()}
        with pytest.raises(InvalidInput, match="it takes float32"):
            executor.submit("torch", wrong).result(PATIENCE_S)
        assert executor.starts("torch") == 1
    finally:
        executor.close()
