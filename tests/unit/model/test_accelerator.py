"""Slices, shares and demands of devices, and the catalogue that knows them."""

from __future__ import annotations

import pytest

from dure.model.accelerator import AcceleratorProfile, DataType, Geometry, Kind, ShareMode, SliceProfile
from dure.model.catalogue import Catalogue, ModelProfile
from dure.model.demand import Demand, on_class
from dure.model.errors import InvalidInput

HALF = SliceProfile("3g", 4, (0, 4), 3, 20_000, 428, 2)
MIG = Geometry(8, 7, (HALF,))
VNPU = Geometry(4, 4, ())


def profile(name: str, tops: dict[DataType, float], bandwidth_gbs: float = 1000.0) -> AcceleratorProfile:
    modes = (ShareMode.EXCLUSIVE, ShareMode.MIG, ShareMode.MPS)
    return AcceleratorProfile(
        name, "v", Kind.GPU, 40_000, bandwidth_gbs, tops, 400.0, 50.0, modes, mig=MIG, vnpu=VNPU, mps_clients=48,
        timeslice_clients=4,
    )  # fmt: skip


BIG = profile("big", {DataType.BF16: 300.0, DataType.INT8: 600.0}, 2000.0)


def test_a_slice_covers_its_slots_from_each_legal_start() -> None:
    assert HALF.masks() == (0b1111, 0b1111_0000)
    assert MIG.profile("3g") is HALF
    assert MIG.profile("9g") is None


def test_throughput_is_that_of_16_bits_where_there_is_one() -> None:
    assert BIG.best_tops == 300.0
    assert profile("old", {DataType.FP32: 8.0, DataType.INT8: 60.0}).best_tops == 60.0
    assert profile("odd", {DataType.FP8: 5.0}).best_tops == 5.0
    assert profile("blank", {}).best_tops == 0.0


def test_each_way_of_sharing_has_its_own_geometry_and_number_of_clients() -> None:
    assert (BIG.geometry(ShareMode.MIG), BIG.geometry(ShareMode.VNPU)) == (MIG, VNPU)
    assert BIG.geometry(ShareMode.MPS) is None
    assert [BIG.clients(mode) for mode in (ShareMode.MPS, ShareMode.TIMESLICE, ShareMode.EXCLUSIVE)] == [48, 4, 1]


def test_what_a_replica_counts_for_is_whole_devices_or_its_larger_share() -> None:
    assert Demand(devices=2, compute_milli=9000).device_milli == 2000
    assert Demand(compute_milli=200, bandwidth_milli=500).device_milli == 500
    assert (Demand(devices=1).whole, Demand(memory_mib=5).whole) == (True, False)


def test_a_share_of_a_fast_device_is_a_larger_share_of_a_slow_one() -> None:
    small = profile("small", {DataType.FP16: 60.0}, 500.0)
    share = Demand(memory_mib=100, compute_milli=100, bandwidth_milli=300)
    there = on_class(share, small, BIG)
    assert (there.compute_milli, there.bandwidth_milli, there.memory_mib) == (500, 1200, 100)
    assert on_class(there, BIG, small) == share
    assert on_class(share, BIG, BIG) is share
    whole = Demand(devices=1, compute_milli=100)
    assert on_class(whole, small, BIG) is whole
    assert on_class(share, profile("unknown", {}, 0.0), BIG) == share


def test_a_catalogue_names_the_nearest_class_or_all_it_knows() -> None:
    known = Catalogue({"h100": BIG, "t4": BIG}, {"llama": ModelProfile("llama", 8e9, 16_000, 30.0)})
    assert known.accelerator("t4") is BIG
    with pytest.raises(InvalidInput) as near:
        known.accelerator("h1000")
    assert near.value.remedy == "Did you mean 'h100'?"
    with pytest.raises(InvalidInput) as far:
        known.accelerator("warehouse")
    assert far.value.remedy == "Known: h100, t4"
    assert (known.load_s("llama"), known.load_s("nobody")) == (30.0, 0.0)
    assert (known.weights_mib("llama"), known.weights_mib("nobody")) == (16_000, 0)
