"""Slices over their sockets: several containers' models on one device, each within its part, gone with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.onnx.models import sample_input, write_model
from dure.adapters.onnx.runner import whole_model
from dure.device.plugin.node import Accelerator, NodeConfig
from dure.device.slice_client import SliceClient
from dure.device.slices import Slices
from dure.model.errors import NotAllowed, Temporary
from dure.share.allowance import opened, spent, wait_ms

HOLDER = """
import sys
from pathlib import Path
from dure.device.slice_client import SliceClient
client = SliceClient(Path(sys.argv[1]), Path(sys.argv[2]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model("recommender", tmp_path_factory.mktemp("models") / "m.onnx", seed=5)


@pytest.fixture
def sockets(tmp_path: Path) -> Path:
    return tmp_path / "slices"


@pytest.fixture
def slices(sockets: Path) -> Iterator[Slices]:
    config = NodeConfig((Accelerator("v", slices=2, memory_mib=1024),), sockets=str(sockets), cores=2)
    made = Slices(config)
    yield made
    made.close()


def path_of(sockets: Path, name: str) -> Path:
    return sockets / name / "device.sock"


def wait_free(slices: Slices, name: str) -> None:
    """Its thread lets go when it has seen the connection end."""
    while slices.doors[name].state:
        slices.doors[name]._thread.join(0.01)


def test_two_containers_get_their_own_models_answers_bit_by_bit(
    slices: Slices, sockets: Path, tmp_path: Path
) -> None:
    kinds = {"v-0": "recommender", "v-1": "transformer"}
    for name, kind in kinds.items():
        write_model(kind, tmp_path / f"{name}.onnx", seed=7)
    clients = {name: SliceClient(path_of(sockets, name), tmp_path / f"{name}.onnx") for name in kinds}
    try:
        given_ = {name: sample_input(onnx.load(str(tmp_path / f"{name}.onnx"))) for name in kinds}
        futures = {name: [client.submit(given_[name]) for _ in range(8)] for name, client in clients.items()}
        for name, found in futures.items():
            expected = whole_model(tmp_path / f"{name}.onnx", given_[name])["output"]
            for future in found:
                np.testing.assert_array_equal(future.result(60.0)["output"], expected)
        squads = slices.executors["v"].record.squads()
        assert {name for squad in squads for name, _, _ in squad.members} == {"v-0", "v-1"}
        ran, *_ = slices.executors["v"].record.timeline(0.0)
        pairs = [(one, other) for one in ran for other in ran if one.tenant < other.tenant]
        assert any(one.start_ms < other.end_ms and other.start_ms < one.end_ms for one, other in pairs), "at once"
    finally:
        for client in clients.values():
            client.close()


def test_a_tenant_never_has_more_threads_than_its_slice(slices: Slices, sockets: Path, model: Path) -> None:
    with SliceClient(path_of(sockets, "v-0"), model) as client:
        greedy = [client.submit(sample_input(onnx.load(str(model)))) for _ in range(20)]
        for future in greedy:
            future.result(60.0)
        spans, *_ = slices.executors["v"].record.timeline(0.0)
        assert spans
        assert all(span.share <= 0.5 for span in spans)


def test_a_slice_in_use_is_refused_to_a_second_container(slices: Slices, sockets: Path, model: Path) -> None:
    with (
        SliceClient(path_of(sockets, "v-0"), model),
        pytest.raises(NotAllowed, match="v-0 is in use"),
    ):
        SliceClient(path_of(sockets, "v-0"), model)


def test_a_killed_container_frees_its_slice_and_its_process(slices: Slices, sockets: Path, model: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(path_of(sockets, "v-0")), str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        executor = slices.executors["v"]
        worker = executor.process_id("v-0")
        os.kill(holder.pid, signal.SIGKILL)
    wait_free(slices, "v-0")
    assert executor.config.tenants == ()
    assert not Path(f"/proc/{worker}").exists()
    with SliceClient(path_of(sockets, "v-0"), model) as client:
        assert "output" in client.infer(sample_input(onnx.load(str(model))))


def test_a_model_that_cannot_be_loaded_is_refused_with_its_reason(
    slices: Slices, sockets: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    with pytest.raises(NotAllowed, match="cannot be loaded"):
        SliceClient(path_of(sockets, "v-0"), bad)
    wait_free(slices, "v-0")
    assert slices.open() == {}


def test_requests_of_a_daemon_that_ends_fail_as_temporary(slices: Slices, sockets: Path, model: Path) -> None:
    client = SliceClient(path_of(sockets, "v-1"), model)
    slices.close()
    with pytest.raises(Temporary):
        client.infer(sample_input(onnx.load(str(model))))
    client.close()
    assert not client.alive


def test_one_who_only_knocks_leaves_no_trace(slices: Slices, sockets: Path, model: Path) -> None:
    from dure.device.plugin.runner import answers

    assert answers(path_of(sockets, "v-0"))
    with SliceClient(path_of(sockets, "v-0"), model):
        assert answers(path_of(sockets, "v-0"))
    assert not answers(sockets / "none" / "device.sock")


@given(
    st.floats(0.1, 2.0),
    st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.1, 30.0)), max_size=40),
)
def test_over_any_time_nobody_gets_more_than_its_rate_and_one_piece(
    rate: float, pieces: list[tuple[float, float]]
) -> None:
    saved = 10.0
    now, used, longest = 0.0, 0.0, 0.0
    allowance = opened(rate, saved, now)
    for pause, piece in pieces:
        now += pause
        now += wait_ms(allowance, now)
        used, longest = used + piece, max(longest, piece)
        allowance = spent(allowance, now, piece)
        assert used <= rate * now + saved + longest + 1e-6
