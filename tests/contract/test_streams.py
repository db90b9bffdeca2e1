"""What `Streams` promise: on a fake CUDA driver and, where there is a GPU, on the real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dure.adapters.nvidia.cuda import Gpu, group_size, look, open_driver
from dure.adapters.nvidia.mps import PERCENTAGE, client_environment, is_on
from dure.adapters.nvidia.streams import CudaStreams
from dure.adapters.pieces import Spot
from dure.model.errors import NotFound, Temporary
from tests.contract.fake_cuda import FakeCuda


@pytest.fixture(params=["fake", "real"])
def driver(request: pytest.FixtureRequest) -> Any:
    if request.param == "fake":
        return FakeCuda()
    try:
        return open_driver()
    except NotFound as error:
        pytest.skip(f"no GPU to run on: {error}")


@pytest.fixture
def streams(driver: Any) -> Iterator[CudaStreams]:
    made = CudaStreams(driver, look(driver, 0))
    yield made
    made.close()


def test_a_gpu_is_seen_with_its_memory_and_its_groups(driver: Any) -> None:
    gpu = look(driver, 0)
    assert gpu.name
    assert gpu.memory_mib > 0
    assert 0 <= gpu.groups * gpu.group_sms <= gpu.sms
    with pytest.raises(NotFound, match="no CUDA device 99"):
        look(driver, 99)


def test_a_spot_has_one_stream_and_others_have_others(streams: CudaStreams) -> None:
    parts = max(streams.gpu.groups, 1)
    handle = streams.handle(Spot(0, parts))
    assert handle
    assert streams.handle(Spot(0, parts)) == handle
    if parts > 1:
        halves = {streams.handle(Spot(0, parts // 2)), streams.handle(Spot(parts // 2, parts // 2))}
        assert len(halves | {handle}) == 3


def test_a_lap_ends_when_the_stream_is_done(streams: CudaStreams) -> None:
    for spot in (Spot(0, 1), Spot(0, max(streams.gpu.groups, 1), rank=3)):
        with streams.lap(spot) as lap:
            pass
        assert 0.0 <= lap.ms < 1000.0
    assert streams.sound()


def test_an_error_inside_a_lap_is_not_hidden(streams: CudaStreams) -> None:
    with pytest.raises(ZeroDivisionError), streams.lap(Spot(0, 1)):
        raise ZeroDivisionError
    with streams.lap(Spot(0, 1)):
        pass


def fake_streams(**more: Any) -> tuple[FakeCuda, CudaStreams]:
    driver = FakeCuda(**more)
    return driver, CudaStreams(driver, look(driver, 0))


def test_spots_that_do_not_overlap_never_meet_on_an_sm() -> None:
    driver, streams = fake_streams()
    assert (streams.gpu.groups, streams.gpu.group_sms) == (8, 16)
    spots = [Spot(0, 3), Spot(3, 1), Spot(4, 4)]
    sms = [driver.stream(streams.handle(spot)).sms for spot in spots]
    assert [len(one) for one in sms] == [48, 16, 64]
    assert len(frozenset().union(*sms)) == 128


def test_ranks_are_priorities_where_the_device_is_shared_by_order() -> None:
    driver, streams = fake_streams(green=False)
    assert streams.gpu.groups == 0
    found = [driver.stream(streams.handle(Spot(0, 1, rank))).priority for rank in (0, 1, 2, 9, 30)]
    assert found == [-5, -4, -3, 0, 0]
    assert streams.handle(Spot(0, 1, 9)) == streams.handle(Spot(0, 1, 30))


def test_a_lap_lasts_as_long_as_the_device_says() -> None:
    driver, streams = fake_streams()
    with streams.lap(Spot(2, 2)) as lap:
        driver.now_ms += 7.5
    assert lap.ms == 7.5
    names = [call[0] for call in driver.calls]
    assert names[-4:] == ["cuEventRecord", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"]


def test_after_an_error_the_stream_is_waited_for() -> None:
    driver, streams = fake_streams()
    with pytest.raises(ZeroDivisionError), streams.lap(Spot(2, 2)):
        raise ZeroDivisionError
    assert driver.calls[-1][0] == "cuStreamSynchronize"


def test_nothing_is_left_after_close() -> None:
    driver, streams = fake_streams()
    for spot in (Spot(0, 8), Spot(0, 8, 2), Spot(1, 3), Spot(4, 2)):
        with streams.lap(spot):
            pass
    streams.close()
    assert driver.left() == []
    assert driver.depth == 1


MAKING = (
    "cuDevResourceGenerateDesc",
    "cuGreenCtxCreate",
    "cuGreenCtxStreamCreate",
    "cuCtxFromGreenCtx",
    "cuEventCreate",
)


@pytest.mark.parametrize("name", [*MAKING, "cuEventCreate again"])
def test_a_spot_that_cannot_be_made_leaves_nothing_behind_and_may_be_tried_again(name: str) -> None:
    driver, streams = fake_streams()
    before = driver.left()
    driver.fail(name.removesuffix(" again"), 2 if name.endswith("again") else 1)
    with pytest.raises(Temporary, match="OUT_OF_MEMORY"):
        streams.handle(Spot(1, 2))
    assert driver.left() == before
    assert driver.depth == 1
    assert streams.handle(Spot(1, 2))
    streams.close()
    assert driver.left() == []


def test_a_device_that_cannot_be_opened_is_given_back() -> None:
    driver = FakeCuda()
    gpu = look(driver, 0)
    driver.fail("cuCtxGetStreamPriorityRange")
    with pytest.raises(Temporary):
        CudaStreams(driver, gpu)
    assert driver.left() == []


def test_a_fault_of_a_kernel_is_seen() -> None:
    driver, streams = fake_streams()
    driver.broken = True
    assert not streams.sound()


@pytest.mark.parametrize(
    ("sms", "least", "step", "size"),
    [(132, 8, 8, 16), (108, 4, 2, 12), (142, 4, 2, 20), (40, 2, 2, 4), (148, 8, 8, 16), (6, 8, 8, 8), (14, 4, 2, 4)],
)
def test_groups_are_about_eight_and_leave_little_over(sms: int, least: int, step: int, size: int) -> None:
    assert group_size(sms, least, step) == size


def test_a_driver_that_does_not_tell_its_partitions_is_known_by_its_architecture() -> None:
    assert look(FakeCuda(132, major=9, tells=False), 0).group_sms == 16
    assert look(FakeCuda(108, major=8, tells=False), 0).group_sms == 12


def test_a_device_too_small_to_divide_has_no_groups() -> None:
    assert look(FakeCuda(12), 0) == Gpu(0, "Fake H100", 80 * 1024, 12)


def test_what_an_mps_client_finds_in_its_environment() -> None:
    found = {PERCENTAGE: "30", "HOME": "/root"}
    client_environment(found, device=1, share=None, memory_mib=0, batch=False)
    assert found == {"HOME": "/root", "CUDA_MPS_CLIENT_PRIORITY": "0"}
    client_environment(found, device=1, share=0.25, memory_mib=1024, batch=True)
    assert found == {
        "HOME": "/root",
        PERCENTAGE: "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=1536M",
        "CUDA_MPS_CLIENT_PRIORITY": "1",
    }


def test_mps_is_on_where_its_daemon_answers() -> None:
    def silent(line: str) -> str:
        raise Temporary("the MPS control daemon does not answer")

    assert is_on(lambda line: "")
    assert not is_on(silent)
