"""What every `DevicePort` promises: run on a fake NVML library and, where there is a GPU, on the real one."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.adapters.nvidia.mps import MpsControl
from dure.adapters.nvidia.nvml import NvmlDevices, open_library
from dure.model.errors import Conflict, InvalidInput, NotFound, Temporary
from dure.ports import DevicePort
from tests.contract.fake_nvml import FakeNvml


def real_or_none() -> DevicePort | None:
    """A real device may be cut up only where its owner says so."""
    if os.environ.get("DURE_TEST_MIG") != "1":
        return None
    try:
        return NvmlDevices(open_library())
    except NotFound:
        return None


REAL = real_or_none()


@pytest.fixture(params=["fake", *(["real"] if REAL else [])])
def port(request: pytest.FixtureRequest) -> DevicePort:
    return REAL if request.param == "real" and REAL else NvmlDevices(FakeNvml())


def test_devices_are_listed_with_their_memory(port: DevicePort) -> None:
    devices = port.fetch_devices()
    assert devices
    assert all(d.memory_mib > d.used_mib >= 0 for d in devices)
    assert len({d.id for d in devices}) == len(devices)


def test_slices_come_and_go(port: DevicePort) -> None:
    device = port.fetch_devices()[0].id
    port.set_mig(device, True)
    made = port.create_slice(device, 3)
    assert made in port.fetch_slices(device)
    port.destroy_slice(device, made.id)
    port.destroy_slice(device, made.id)
    assert port.fetch_slices(device) == ()
    port.set_mig(device, False)


def test_a_full_device_refuses_and_says_so(port: DevicePort) -> None:
    device = port.fetch_devices()[0].id
    port.set_mig(device, True)
    whole = port.create_slice(device, 7)
    with pytest.raises(Conflict, match="no room"):
        port.create_slice(device, 1)
    with pytest.raises(Conflict, match="still has slices"):
        port.set_mig(device, False)
    port.destroy_slice(device, whole.id)
    port.set_mig(device, False)


def test_slices_need_mig_and_an_existing_size(port: DevicePort) -> None:
    device = port.fetch_devices()[0].id
    with pytest.raises(Conflict, match="MIG is off"):
        port.create_slice(device, 1)
    port.set_mig(device, True)
    with pytest.raises(NotFound, match="no profile of 5"):
        port.create_slice(device, 5)
    port.set_mig(device, False)


def test_an_unknown_device_is_not_found(port: DevicePort) -> None:
    with pytest.raises(NotFound):
        port.fetch_slices("GPU-none")


def test_a_lost_device_is_temporary() -> None:
    library = FakeNvml()
    port = NvmlDevices(library)
    library.lose(0)
    with pytest.raises(Temporary):
        port.fetch_slices("GPU-0")
    assert port.fetch_slices("GPU-1") == ()


def test_a_device_without_mig_has_no_slices() -> None:
    port = NvmlDevices(FakeNvml(mig_capable=False))
    assert port.fetch_slices("GPU-0") == ()
    assert not port.fetch_devices()[0].mig


@settings(deadline=None, max_examples=50)
@given(sizes=st.lists(st.sampled_from([1, 2, 3, 4, 7]), max_size=8))
def test_slices_never_overlap(sizes: list[int]) -> None:
    port = NvmlDevices(FakeNvml())
    port.set_mig("GPU-0", True)
    for size in sizes:
        try:
            port.create_slice("GPU-0", size)
        except Conflict:
            continue
    slices = port.fetch_slices("GPU-0")
    assert sum(s.slices for s in slices) <= 7
    assert len({s.start for s in slices}) == len(slices)


class Scripted:
    """An MPS control daemon that keeps the last percentage."""

    def __init__(self) -> None:
        self.percent = 100.0
        self.lines: list[str] = []

    def __call__(self, line: str) -> str:
        self.lines.append(line)
        words = line.split()
        if words[0] == "set_active_thread_percentage":
            self.percent = float(words[2])
            return ""
        return {
            "get_server_list": "4021",
            "get_client_list": "77\n78",
            "get_active_thread_percentage": str(self.percent),
        }[words[0]]


def test_mps_shares_are_set_for_the_next_clients() -> None:
    daemon = Scripted()
    control = MpsControl(daemon)
    (server,) = control.servers()
    control.set_share(server, 33.3)
    assert control.share(server) == pytest.approx(33.3)
    assert control.clients(server) == (77, 78)
    assert daemon.lines[1] == "set_active_thread_percentage 4021 33.3"


@pytest.mark.parametrize("percent", [0.0, -5.0, 101.0])
def test_an_impossible_mps_share_is_refused(percent: float) -> None:
    with pytest.raises(InvalidInput):
        MpsControl(Scripted()).set_share(1, percent)
