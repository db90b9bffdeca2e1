"""What ships with Dure is whole and consistent."""

from __future__ import annotations

from collections import Counter

import pytest

from dure.files.accelerator import geometry_problems
from dure.files.builtin import catalogue, demo_fleet
from dure.model.accelerator import Geometry, Kind, ShareMode
from dure.model.demand import on_class
from dure.model.tariff import Capacity
from dure.model.units import HOUR_S, WHOLE_MILLI
from dure.model.workload import WorkloadType

SEVEN_SLICE_CLASSES = [
    "a100-40gb-sxm",
    "a100-80gb-sxm",
    "h100-80gb-sxm",
    "h100-80gb-pcie",
    "h200-141gb-sxm",
    "b200-180gb-sxm",
]


def legal_multisets(geometry: Geometry) -> set[tuple[str, ...]]:
    """Every multiset of profiles that fits one device, the empty one included."""
    found: set[tuple[str, ...]] = set()
    places = [(profile, mask) for profile in geometry.profiles for mask in profile.masks()]

    def grow(first: int, taken: int, compute: int, names: tuple[str, ...]) -> None:
        found.add(tuple(sorted(names)))
        for index in range(first, len(places)):
            profile, mask = places[index]
            if not taken & mask and compute + profile.compute_slices <= geometry.compute_slices:
                grow(index + 1, taken | mask, compute + profile.compute_slices, (*names, profile.name))

    grow(0, 0, 0, ())
    return found


def maximal(multisets: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    counted = {names: Counter(names) for names in multisets}
    return {
        names
        for names in multisets
        if not any(names != other and counted[names] <= counted[other] for other in multisets)
    }


@pytest.mark.parametrize("name", SEVEN_SLICE_CLASSES)
def test_seven_slice_devices_have_78_legal_slicings_of_which_28_are_maximal(name: str) -> None:
    geometry = catalogue().classes[name].mig
    assert geometry is not None
    multisets = legal_multisets(geometry)
    assert (len(multisets), len(maximal(multisets))) == (78, 28)


def test_an_a30_has_10_legal_slicings_of_which_4_are_maximal() -> None:
    geometry = catalogue().classes["a30"].mig
    assert geometry is not None
    multisets = legal_multisets(geometry)
    assert (len(multisets), len(maximal(multisets))) == (10, 4)


def test_no_profile_claims_more_instances_than_fit() -> None:
    for profile in catalogue().classes.values():
        for geometry in (profile.mig, profile.vnpu):
            for piece in geometry.profiles if geometry else ():
                most = max(Counter(names)[piece.name] for names in legal_multisets(geometry)) if geometry else 0
                assert piece.max_instances == most, (profile.name, piece.name)


def test_every_class_is_possible_in_itself() -> None:
    for profile in catalogue().classes.values():
        assert geometry_problems(profile) == []
        assert profile.tops
        assert 0 < profile.idle_w < profile.peak_w
        assert ShareMode.EXCLUSIVE in profile.share


def test_the_catalogue_has_gpus_npus_and_cpus() -> None:
    kinds = Counter(profile.kind for profile in catalogue().classes.values())
    assert kinds[Kind.GPU] >= 11
    assert kinds[Kind.NPU] >= 7
    assert kinds[Kind.CPU] >= 1


def test_ascend_templates_add_up_to_the_chip() -> None:
    chip = catalogue().classes["ascend-910b2"]
    assert chip.vnpu is not None
    half = chip.vnpu.profile("vir12_3c_32g")
    assert half is not None
    assert half.memory_mib * 2 == chip.memory_mib
    assert half.compute_slices * 2 == chip.vnpu.compute_slices == 24


def test_models_name_known_classes_that_can_hold_them() -> None:
    known = catalogue()
    for model in known.models.values():
        assert next(iter(model.speed.values())) == 1.0, model.name
        for name in model.speed:
            assert model.weights_mib < known.classes[name].memory_mib, (model.name, name)


def test_templates_cover_every_type_and_name_known_models() -> None:
    known = catalogue()
    assert {template.type for template in known.templates.values()} == set(WorkloadType)
    for template in known.templates.values():
        assert template.model in known.models
        assert all(accepted.speed > 0 for accepted in template.classes)


def test_every_template_fits_every_class_that_it_accepts() -> None:
    known = catalogue()
    for template in known.templates.values():
        reference = known.classes[template.classes[0].name]
        for accepted in template.classes:
            profile = known.classes[accepted.name]
            demand = on_class(template.demand, profile, reference)
            assert demand.memory_mib <= profile.memory_mib, (template.name, accepted.name)
            assert max(demand.compute_milli, demand.bandwidth_milli) <= WHOLE_MILLI, (template.name, accepted.name)


def test_the_demo_fleet_is_marked_as_demo_and_has_the_four_sites() -> None:
    fleet = demo_fleet()
    assert fleet.demo
    classes = {cluster.info.name: {pool.class_name for pool in cluster.pools} for cluster in fleet.clusters}
    assert classes == {
        "seoul-onprem": {"h100-80gb-sxm", "a100-80gb-sxm"},
        "gwangju-npu": {"atom", "rngd", "t4"},
        "cloud-kr": {"a10g", "l4"},
        "cloud-us": {"h100-80gb-sxm", "a100-80gb-sxm", "l4"},
    }
    assert len(fleet.tenants) == 3
    assert all(cluster.connect.embedded for cluster in fleet.clusters)


def test_the_demo_prices_are_in_utc() -> None:
    electricity = demo_fleet().clusters[0].pools[0].tariff.electricity
    assert electricity is not None
    monday_utc = 4 * 24 * HOUR_S  # 1970-01-05 was a Monday
    assert electricity.at(monday_utc + 5 * HOUR_S) == 212_000_000  # 14:00 in Seoul
    assert electricity.at(monday_utc + 15 * HOUR_S) == 104_000_000  # midnight in Seoul


def test_the_demo_has_owned_on_demand_and_spot_capacity_with_its_price() -> None:
    pools = [pool for cluster in demo_fleet().clusters for pool in cluster.pools]
    assert {pool.capacity for pool in pools} == set(Capacity)
    for pool in pools:
        assert pool.tariff.per_hour(pool.capacity) is not None
        assert (pool.tariff.reclaim_per_hour > 0) == (pool.capacity is Capacity.SPOT)
