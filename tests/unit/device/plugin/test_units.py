"""What a node offers, which units are preferred, what a container gets, who holds what."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.adapters.kubelet.pod_resources import Owner
from dure.device.plugin.book import GRACE_S, Book
from dure.device.plugin.inject import injected
from dure.device.plugin.node import Accelerator, Instance, Mode, NodeConfig, read_node, units
from dure.device.plugin.prefer import preferred
from dure.model.errors import Conflict, InvalidInput

GPUS = NodeConfig(
    (
        Accelerator("g0", Mode.WHOLE, uuid="GPU-0", nodes=("/dev/nvidia0",), link_group=0),
        Accelerator("g1", Mode.WHOLE, uuid="GPU-1", link_group=1),
        Accelerator("g2", Mode.WHOLE, uuid="GPU-2", link_group=1),
        Accelerator("g3", Mode.WHOLE, uuid="GPU-3", link_group=1),
        Accelerator("m", Mode.MIG, instances=(Instance("3g.20gb", "MIG-7", 428, 20096),)),
        Accelerator("p", Mode.MPS, uuid="GPU-5", slices=4, memory_mib=40960),
        Accelerator("v", Mode.VIRTUAL, slices=4, memory_mib=2048),
    )
)
BY_ID = {unit.id: unit for unit in units(GPUS)}
OWNER = Owner("team", "pod", "main")


def test_every_mode_has_a_resource_of_its_own() -> None:
    counted: dict[str, int] = {}
    for unit in units(GPUS):
        counted[unit.resource] = counted.get(unit.resource, 0) + 1
    assert counted == {"dure.dev/gpu": 4, "dure.dev/mig-3g.20gb": 1, "dure.dev/mps": 4, "dure.dev/virtual": 4}


def test_devices_of_one_link_group_are_preferred_and_a_lone_one_fills_the_smallest_group() -> None:
    free = ["g0", "g1", "g2", "g3"]
    assert set(preferred(BY_ID, free, [], 3)) == {"g1", "g2", "g3"}
    assert preferred(BY_ID, free, [], 1) == ("g0",)
    assert set(preferred(BY_ID, free, ["g2"], 2)) <= {"g1", "g2", "g3"}


def test_slices_are_taken_from_the_fullest_device() -> None:
    config = NodeConfig((Accelerator("a", slices=4), Accelerator("b", slices=4)))
    known = {unit.id: unit for unit in units(config)}
    assert preferred(known, ["a-0", "a-1", "a-2", "b-3"], [], 1) == ("b-3",)
    assert preferred(known, ["a-0", "a-1", "b-3"], [], 2) == ("a-0", "a-1")


@given(st.sets(st.sampled_from(sorted(BY_ID))), st.data())
def test_a_preference_is_as_large_as_asked_and_of_what_is_free(free: set[str], data: st.DataObject) -> None:
    must = data.draw(st.sets(st.sampled_from(sorted(free))) if free else st.just(set()))
    size = data.draw(st.integers(len(must), len(free)))
    found = preferred(BY_ID, sorted(free), sorted(must), size)
    assert len(found) == len(set(found)) == size
    assert must <= set(found) <= free


def test_a_container_learns_slice_limits_and_socket() -> None:
    got = injected([BY_ID["v-1"]], GPUS)
    assert got.envs == {
        "DURE_SLICE": "v-1",
        "DURE_COMPUTE_MILLI": "250",
        "DURE_MEMORY_MIB": "512",
        "DURE_DEVICE": "/run/dure/v-1/device.sock",
    }
    assert [(one.container_path, one.host_path) for one in got.mounts] == [("/run/dure/v-1", "/run/dure/slices/v-1")]


def test_hardware_is_named_in_the_words_of_its_driver() -> None:
    assert injected([BY_ID["m-0"]], GPUS).envs["NVIDIA_VISIBLE_DEVICES"] == "MIG-7"
    whole = injected([BY_ID["g0"], BY_ID["g1"]], GPUS)
    assert whole.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
    assert "/dev/nvidia0" in [one.host_path for one in whole.devices]
    shared = injected([BY_ID["p-0"], BY_ID["p-1"]], GPUS).envs
    assert shared["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert shared["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"


def test_a_unit_of_a_living_pod_is_not_given_again_and_the_book_outlives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    book = Book(path)
    book.give(["v-0"], 10.0)
    book.listed({"v-0": OWNER}, 11.0)
    with pytest.raises(Conflict, match="held by pod team/pod"):
        Book(path).give(["v-0"], 12.0)


def test_a_unit_is_free_when_its_pod_is_no_longer_listed(tmp_path: Path) -> None:
    book = Book(tmp_path / "book.json")
    book.give(["v-0", "v-1"], 10.0)
    book.listed({"v-0": OWNER}, 11.0)
    assert book.listed({}, 12.0) == ("v-0",)
    assert set(book.held) == {"v-1"}
    assert book.listed({}, 10.0 + GRACE_S) == ("v-1",)


def test_a_broken_book_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_text('{"version": 1, "held": {"v-0": ')
    assert Book(path).held == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("devices: []", "there must be one"),
        ("devices: [{name: A}]", "is no name of a device"),
        ("devices: [{name: a, mode: whole}]", "needs its uuid"),
        ("devices: [{name: a, mode: mig}]", "needs its instances"),
        ("devices: [{name: a, mode: wholly}]", "Invalid enum value"),
        ("devices: [{name: a, slices: 0}]", "1 to 1000 slices"),
        ("devices: [{name: a, slices: 2}, {name: a-1, mode: whole, uuid: G}]", "two units have one name"),
    ],
)
def test_a_node_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "node.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=told):
        read_node(path)
