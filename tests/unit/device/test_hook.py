"""Eager modules behind the dispatch hook: control flow that depends on values, and code that misbehaves.

What they share with exported programs is in `test_torch`; runs where torch is installed (extra `torch`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dure.adapters.onnx.worker import Work, loaded
from dure.adapters.torch.code import Code, code_of, made
from dure.device.config import DeviceConfig, TenantConfig, validated
from dure.device.executor import Executor
from dure.model.errors import InvalidInput, NotAllowed, Permanent, Temporary
from dure.share.promise import Promise

PATIENCE_S = 300.0
NET = """
import os, time
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.step = torch.nn.Linear(32, 32)

    def forward(self, x, rounds):
        y = self.encoder(x)
        n = 0
        while n < int(rounds):
            y = torch.tanh(self.step(y))
            n += 1
        match int(rounds):
            case -1: raise SystemExit(3)
            case -2: os._exit(4)
            case -3: time.sleep(600)
            case -4: return "no tensor"
        return {"y": y, "n": torch.tensor(n)}

def make():
    return Net().eval(), {"x": torch.zeros(1, 6, 32), "rounds": torch.tensor(10)}, {"x": (1,)}

def nothing():
    return 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def given(rounds: int, length: int = 6) -> dict[str, Any]:
    x = np.random.default_rng(rounds + 10).standard_normal((1, length, 32)).astype(np.float32)
    return {"x": x, "rounds": np.array(rounds)}


def test_code_is_told_from_files() -> None:
    assert code_of("/models/net.py:make") == Code("/models/net.py", "make")
    assert code_of("package.nets:make") == Code("package.nets", "make")
    for model in ("net.onnx", "net.pt2", "net.py", "/a/net.onnx:make", "net.py:no-name"):
        assert code_of(model) is None


def test_code_runs_only_where_it_is_asked_for(file: Path) -> None:
    def checked(model: str, code: bool) -> DeviceConfig:
        return validated(DeviceConfig((TenantConfig("a", model, code=code),)))

    assert checked(f"{file}:make", code=True).tenants[0].code
    with pytest.raises(InvalidInput, match="is code, which the tenant's process would run"):
        checked(f"{file}:make", code=False)
    with pytest.raises(InvalidInput, match="names no code"):
        checked(str(file), code=True)
    with pytest.raises(InvalidInput, match="is not there"):
        checked(f"{file.parent}/other.py:make", code=True)


torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'dure[torch]'")


def runner_of(file: Path, pieces: int = 5) -> Any:
    return loaded(Work(f"{file}:make", pieces, code=True))[0]


def expected(file: Path, inputs: dict[str, Any]) -> Any:
    torch.set_num_threads(1)
    with torch.no_grad():
        answer = made(Code(str(file), "make")).module(**{name: torch.from_numpy(v) for name, v in inputs.items()})
    return answer["y"].numpy()


def in_pieces(runner: Any, number: int, inputs: dict[str, Any]) -> tuple[int, Any]:
    """How many pieces it took, one after the other, and the outputs."""
    at, first, count = 0, True, 0
    while True:
        answer = runner.answer(("run", number, inputs if first else None, at, at + 1, 1))
        assert answer[0] == "done", answer
        first, count, at = False, count + 1, answer[2]
        if answer[4] is not None:
            return count, answer[4]


@pytest.mark.parametrize("rounds", [0, 3, 10, 40])
@pytest.mark.parametrize("length", [6, 9])
def test_control_flow_by_values_gives_the_bits_of_the_module_alone(file: Path, rounds: int, length: int) -> None:
    inputs = given(rounds, length)
    count, outputs = in_pieces(runner_of(file), 1, inputs)
    assert int(outputs["n"]) == rounds
    assert outputs["y"].tobytes() == expected(file, inputs).tobytes()
    assert count > 1


def test_a_shorter_request_needs_fewer_pieces_and_a_longer_one_just_one_more(file: Path) -> None:
    runner = runner_of(file)
    runner.profile(1)
    usual = len(runner.segments) - 1
    assert in_pieces(runner, 1, given(10))[0] == usual
    assert in_pieces(runner, 2, given(0))[0] < usual
    assert in_pieces(runner, 3, given(80))[0] == usual + 1


def test_the_time_beyond_the_profile_is_learnt_and_told_once(file: Path) -> None:
    runner = runner_of(file)
    before = runner.profile(1)
    assert before[-1] == 0.0
    assert runner.revised() is None
    for number in range(4):
        in_pieces(runner, number, given(500))
    again = runner.revised()
    assert again is not None
    assert again[:-1] == before[:-1]
    assert again[-1] > 0.0
    assert runner.revised() is None
    for number in range(40):
        runner.answer(("run", number, given(0), 0, len(runner.segments), 1))
    assert runner.revised()[-1] < again[-1]


def test_a_worker_that_was_not_told_to_runs_no_code(file: Path) -> None:
    with pytest.raises(Permanent, match="is not to run any"):
        loaded(Work(f"{file}:make", 2))


def test_many_requests_stand_at_once_and_each_goes_on_where_it_stood(file: Path) -> None:
    runner = runner_of(file)
    asked = {number: given(number + 3) for number in range(4)}
    for number, inputs in asked.items():
        assert runner.answer(("run", number, inputs, 0, 1, 1))[4] is None
    for number, inputs in reversed(asked.items()):
        outputs = runner.answer(("run", number, None, 1, len(runner.segments), 1))[4]
        assert outputs["y"].tobytes() == expected(file, inputs).tobytes()


def test_a_module_is_found_by_its_import_path(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.rename(file.with_name("dure_a_net_of_a_test.py"))
    monkeypatch.syspath_prepend(str(file.parent))
    try:
        assert loaded(Work("dure_a_net_of_a_test:make", 2, code=True))[0].names == ["x", "rounds"]
        with pytest.raises(InvalidInput, match="makes no model"):
            made(Code("dure_a_net_of_a_test", "nothing"))
        with pytest.raises(InvalidInput, match="has no function"):
            made(Code("dure_a_net_of_a_test", "other"))
    finally:
        sys.modules.pop("dure_a_net_of_a_test", None)


def test_code_that_ends_hangs_or_errs_hurts_nobody_else(file: Path) -> None:
    promise = Promise(latency_ms=60_000.0)
    tenants = tuple(
        TenantConfig(name, f"{file}:make", promise=promise, code=True, timeout_ms=timeout_ms)
        for name, timeout_ms in (("bad", 3_000.0), ("good", 60_000.0))
    )
    executor = Executor(validated(DeviceConfig(tenants, cores=2)))
    try:
        inputs = given(7)
        right = expected(file, inputs).tobytes()
        assert executor.submit("bad", inputs).result(PATIENCE_S)["y"].tobytes() == right
        for rounds, why, starts in (
            (-1, "SystemExit", 1),
            (-4, "answers a str", 1),
            (-2, "ended with code 4", 2),
            (-3, "no answer for", 3),
        ):
            with pytest.raises(Temporary, match=why):
                executor.submit("bad", given(rounds)).result(PATIENCE_S)
            assert executor.submit("good", inputs).result(PATIENCE_S)["y"].tobytes() == right
            assert executor.starts("bad") == starts
        assert executor.submit("bad", inputs).result(PATIENCE_S)["y"].tobytes() == right
        assert executor.starts("good") == 1
    finally:
        executor.close()


def test_bits_do_not_depend_on_the_share(file: Path) -> None:
    """With two threads this module has other last bits, which is what the tenant may allow."""
    one, two = (loaded(Work(f"{file}:make", 3, 2, exact=exact, code=True))[0] for exact in (True, False))
    differ = False
    for rounds in range(12):
        inputs = given(rounds, 3 + rounds)
        alone = expected(file, inputs).tobytes()
        for threads in (1, 2):
            assert one.answer(("run", rounds, inputs, 0, 4, threads))[4]["y"].tobytes() == alone
        differ = differ or two.answer(("run", rounds, inputs, 0, 4, 2))[4]["y"].tobytes() != alone
    if not differ:
        pytest.skip("on this machine two threads give the bits of one")


def test_code_that_makes_no_model_keeps_its_tenant_out(file: Path) -> None:
    tenant = TenantConfig("a", f"{file}:nothing", code=True)
    executor = Executor(validated(DeviceConfig((tenant,), cores=1)))
    try:
        with pytest.raises(NotAllowed, match="makes no model"):
            executor.submit("a", given(1)).result(PATIENCE_S)
    finally:
        executor.close()
