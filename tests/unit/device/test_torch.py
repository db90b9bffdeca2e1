"""The PyTorch backend: the same bits in pieces as in one; runs where torch is installed (extra `torch`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dure.adapters.onnx.worker import runner_of

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dure[torch]'")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    path = tmp_path_factory.mktemp("torch") / "net.pt2"
    torch.export.save(torch.export.export(net, (torch.zeros(1, 3, 16, 16),)), str(path))
    return path


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
@pytest.mark.parametrize("threads", [1, 2])
def test_pieces_in_order_equal_the_whole_program_bit_by_bit(program: Path, pieces: int, threads: int) -> None:
    runner = runner_of(program, pieces)
    inputs = given(runner, pieces)
    torch.set_num_threads(threads)
    expected = whole_program(program, inputs)["output"].tobytes()
    for at in range(len(runner.segments)):
        answer = runner.answer(("run", 7, inputs if at == 0 else None, at, at + 1, threads))
        assert answer[0] == "done"
    assert answer[4]["output"].tobytes() == expected


def test_a_request_that_makes_no_sense_is_an_answer(program: Path) -> None:
    runner = runner_of(program, 2)
    wrong = {name: np.zeros((1, 2), np.float32) for name in runner.names}
    assert runner.answer(("run", 1, wrong, 0, 2, 1))[0] == "failed"
    assert len(runner.profile(1)) == len(runner.segments)
    assert all(ms >= 0.0 for ms in runner.profile(1))
