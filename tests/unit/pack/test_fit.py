"""What a demand would take of one node: every clash with its two numbers, every limit met exactly."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.accelerator import AcceleratorProfile, DataType, Geometry, ShareMode
from dure.model.catalogue import Catalogue
from dure.model.cluster import Device, Node, NodePhase, Pod, Slice, Taint, Toleration
from dure.model.demand import Demand
from dure.model.reason import Reason, Verdict
from dure.model.tenant import Isolation
from dure.pack.fit import fits_device, fits_node, largest_free
from dure.pack.room import DeviceRoom, room_of
from tests.unit.pack.worlds import A100, BIG, CATALOGUE, SMALL, node, pod, profile

MPS, MIG, TIME, ALONE, VNPU = (
    ShareMode.MPS,
    ShareMode.MIG,
    ShareMode.TIMESLICE,
    ShareMode.EXCLUSIVE,
    ShareMode.VNPU,
)


def answer(
    wish: Pod, where: Node, *there: Pod, catalogue: Catalogue = CATALOGUE
) -> list[tuple[Slice, ...]] | Verdict:
    return fits_node(wish, room_of(where, there, catalogue), catalogue)


def clash(wish: Pod, where: Node, *there: Pod) -> tuple[Reason | None, str]:
    found = answer(wish, where, *there)
    assert isinstance(found, Verdict)
    assert found.where.startswith(where.name)
    return found.reason, found.sentence


def fits(wish: Pod, where: Node, *there: Pod) -> bool:
    return not isinstance(answer(wish, where, *there), Verdict)


def with_demand(**demand: int) -> Pod:
    return msgspec.structs.replace(pod("p", share=(MPS,)), demand=Demand(**demand))


def holding(name: str, *parts: Slice, **more: object) -> Pod:
    return msgspec.structs.replace(pod(name, **more), slices=parts, node="a")  # type: ignore[arg-type]


def whole(*devices: str) -> Pod:
    return holding("-".join(devices), *(Slice(one, ALONE, compute_milli=1000) for one in devices))


def changed(where: Node, **more: object) -> Node:
    return msgspec.structs.replace(where, **more)


def test_a_node_that_is_not_ready_takes_nobody() -> None:
    for phase in (NodePhase.BOOTING, NodePhase.DRAINING):
        found = clash(pod("p", devices=1), changed(node("a"), phase=phase))
        assert found == (Reason.NO_CAPACITY, f"needs a ready node, a is {phase}")


def test_a_taint_needs_a_toleration_unless_it_is_only_a_wish() -> None:
    tainted = changed(node("a"), taints=(Taint("soft", "x", "PreferNoSchedule"), Taint("gpu", "x")))
    assert clash(pod("p", devices=1), tainted) == (
        Reason.TAINT_NOT_TOLERATED,
        "needs a toleration of gpu, none is given",
    )
    other, right = Toleration("disk", "Exists"), Toleration("gpu", "Equal", "x")
    assert fits(pod("p", devices=1, tolerations=(other, right)), tainted)
    assert not fits(pod("p", devices=1, tolerations=(other,)), tainted)
    assert fits(pod("p", devices=1), changed(node("a"), taints=(Taint("soft", "x", "PreferNoSchedule"),)))


def test_every_label_of_the_selector_must_be_there() -> None:
    wish = pod("p", devices=1, selector={"zone": "x", "disk": "ssd"})
    assert fits(wish, changed(node("a"), labels={"disk": "ssd", "zone": "x"}))
    assert clash(wish, changed(node("a"), labels={"zone": "x"})) == (
        Reason.SELECTOR_MISMATCH,
        "needs disk=ssd, a has none",
    )
    assert clash(wish, changed(node("a"), labels={"disk": "hdd"}))[1] == "needs disk=ssd, a has hdd"


def test_host_cpu_and_memory_may_be_used_up_and_not_passed() -> None:
    tight = changed(node("a", cpu=2000), memory_mib=4096)
    assert fits(pod("p", devices=1), tight)
    assert clash(pod("p", devices=1), changed(tight, cpu_milli=1999)) == (
        Reason.HOST_TOO_SMALL,
        "needs 2 cores, a has 1.999 left",
    )
    assert clash(pod("p", devices=1), changed(tight, memory_mib=4095)) == (
        Reason.HOST_TOO_SMALL,
        "needs 4 GiB of host memory, a has 3.99902 GiB left",
    )


def test_a_tenant_with_a_node_of_its_own_is_not_seated_beside_others() -> None:
    there = holding("x", Slice("a/0", ALONE), tenant="other")
    wish = pod("p", devices=1, isolation=Isolation.OWN_NODE)
    assert clash(wish, node("a"), there) == (Reason.ISOLATION_TIER, "needs a node of its own, a holds other tenants")


def test_a_node_of_other_classes_says_which_it_has_and_ill_devices_do_not_count() -> None:
    assert clash(pod("p", devices=1, classes=("big", "huge")), node("a", cls="small")) == (
        Reason.CLASS_NOT_ACCEPTED,
        "needs big/huge, a has small",
    )
    ill = changed(node("a", 1), devices=(Device("a/0", "small", healthy=False), Device("a/1", "big")))
    assert fits(pod("p", devices=1), ill)
    none = changed(node("a", 1), devices=(Device("a/0", "big", healthy=False),))
    assert clash(pod("p", compute=100), none) == (Reason.NO_CAPACITY, "needs a healthy device, a has none")


def test_whole_devices_need_memory_and_number() -> None:
    assert fits(pod("p", devices=4, memory=81_920), node("a"))
    assert clash(pod("p", devices=1, memory=81_921), node("a")) == (
        Reason.MEMORY_TOO_SMALL,
        "needs 80.001 GiB per device, largest device on a has 80 GiB",
    )
    assert clash(pod("p", devices=4), node("a"), whole("a/1")) == (
        Reason.NO_CAPACITY,
        "needs 4 whole devices on one node, a has 3 free",
    )
    assert answer(pod("p", devices=1), node("a", 1)) == [
        (Slice("a/0", ALONE, memory_mib=81_920, compute_milli=1000, bandwidth_milli=1000),)
    ]


def taken(devices: int, count: int, *busy: int, links: tuple[int, ...] = ()) -> str:
    """Numbers of the devices that a demand of `count` takes on a node where `busy` are held."""
    groups = links or (0,) * devices
    made = tuple(Device(f"a/{i}", "big", link_group=groups[i]) for i in range(devices))
    there = [whole(f"a/{i}") for i in busy]
    found = answer(pod("p", devices=count), changed(node("a", 0), devices=made), *there)
    assert isinstance(found, list)
    return "".join(part.device[2:] for part in found[0])


def test_neighbours_of_one_link_group_come_first_then_one_group_then_few_groups() -> None:
    assert taken(6, 2, 1) == "23"
    assert taken(6, 2, 3) == "45", "the tightest run"
    assert taken(7, 2, 2, 5) == "01", "the first of equals"
    assert taken(5, 3, 2, links=(0, 0, 0, 0, 1)) == "013", "no run is long enough, one group is"
    assert taken(6, 2, links=(0, 1, 0, 1, 0, 2)) == "13", "the tightest group"
    assert taken(5, 4, links=(1, 0, 0, 1, 0)) == "1240", "the largest group first"
    assert taken(4, 2, links=(0, 1, 0, 1)) == "02"
    assert taken(4, 2, links=(2, 0, 1, 3)) == "01", "the order of the devices decides between equal groups"


def test_a_share_is_seated_once_for_each_device_in_another_state() -> None:
    there = holding("x", Slice("a/2", MPS, compute_milli=300, memory_mib=1000))
    found = answer(pod("p", compute=200, memory=1000, share=(MPS,)), node("a", 4), there)
    part = Slice("a/0", MPS, memory_mib=1000, compute_milli=200)
    assert found == [(part,), (msgspec.structs.replace(part, device="a/2"),)]


def test_empty_devices_of_another_class_or_mode_are_seats_of_their_own() -> None:
    mixed = (
        Device("a/0", "big"),
        Device("a/1", "big", MPS),
        Device("a/2", "small"),
        Device("a/3", "big"),
        Device("a/4", "small"),
    )
    found = answer(pod("p", compute=200, classes=("big", "small"), share=(MPS,)), changed(node("a"), devices=mixed))
    assert isinstance(found, list)
    assert [parts[0].device for parts in found] == ["a/0", "a/1", "a/2"]


def test_a_share_is_meant_of_the_first_class_and_larger_on_a_slower_one() -> None:
    fast, slow = (
        msgspec.structs.replace(one, tops={DataType.FP16: tops}) for one, tops in ((BIG, 400.0), (SMALL, 100.0))
    )
    catalogue = Catalogue({"big": fast, "small": slow})
    wish = pod("p", compute=200, classes=("big", "small"), share=(MPS,))
    found = answer(wish, node("a", 1, cls="small"), catalogue=catalogue)
    assert found == [(Slice("a/0", MPS, compute_milli=800),)]
    too_much = pod("p", compute=300, classes=("big", "small"), share=(MPS,))
    refused = answer(too_much, node("a", 1, cls="small"), catalogue=catalogue)
    assert isinstance(refused, Verdict)
    assert refused.sentence == "needs 120 %, a/0 has 100 % left"


def test_the_first_device_that_refuses_says_why() -> None:
    first = holding("x", Slice("a/0", MPS, compute_milli=950))
    second = holding("y", Slice("a/1", MPS, memory_mib=81_920))
    wish = pod("p", compute=100, memory=1000, share=(MPS,))
    assert clash(wish, node("a", 2), first, second) == (Reason.COMPUTE_TOO_SMALL, "needs 10 %, a/0 has 5 % left")


@pytest.mark.parametrize(
    ("kind", "asked", "held", "refusal"),
    [
        ("memory_mib", 1024, 81_920 - 1024, None),
        ("memory_mib", 1025, 81_920 - 1024, (Reason.MEMORY_TOO_SMALL, "needs 1.00098 GiB, a/0 has 1 GiB left")),
        ("compute_milli", 100, 900, None),
        ("compute_milli", 101, 900, (Reason.COMPUTE_TOO_SMALL, "needs 10.1 %, a/0 has 10 % left")),
        ("bandwidth_milli", 100, 900, None),
        ("bandwidth_milli", 101, 900, (Reason.BANDWIDTH_TOO_SMALL, "needs 10.1 %, a/0 has 10 % left")),
    ],
)
def test_a_share_may_use_up_each_of_memory_compute_and_bandwidth(
    kind: str, asked: int, held: int, refusal: tuple[Reason, str] | None
) -> None:
    there, wish = holding("x", shared(**{kind: held})), with_demand(**{kind: asked})
    if refusal is None:
        assert answer(wish, node("a", 1), there) == [(shared(**{kind: asked}),)]
    else:
        assert clash(wish, node("a", 1), there) == refusal


def shared(**part: int) -> Slice:
    return msgspec.structs.replace(Slice("a/0", MPS), **part)


def test_a_device_has_so_many_clients_and_no_more() -> None:
    there = [holding(f"x{i}", Slice("a/0", TIME)) for i in range(4)]
    wish = pod("p", compute=100, share=(TIME,))
    assert fits(wish, node("a", 1), *there[:3])
    assert clash(wish, node("a", 1), *there) == (Reason.NO_CAPACITY, "needs one more timeslice client, a/0 has 4")


def test_a_device_in_use_keeps_its_mode_and_an_empty_one_prefers_it() -> None:
    wish = pod("p", compute=100, memory=1000)

    def mode(device: Device, *there: Pod, asked: Pod = wish) -> ShareMode | None:
        found = answer(asked, changed(node("a"), devices=(device,)), *there)
        return found[0][0].mode if isinstance(found, list) else None

    assert mode(Device("a/0", "big", MPS)) is MPS
    assert mode(Device("a/0", "big", MIG)) is MIG
    assert mode(Device("a/0", "big", ALONE)) is ALONE, "a whole device, without a change of mode"
    assert mode(Device("a/0", "big", VNPU)) is MIG, "the first that is offered"
    busy = holding("x", Slice("a/0", TIME, compute_milli=100))
    assert mode(Device("a/0", "big"), busy) is TIME
    only = pod("p", compute=100, memory=1000, share=(MPS, MIG))
    assert mode(Device("a/0", "big"), asked=only) is MIG
    assert mode(Device("a/0", "big"), busy, asked=only) is None
    assert clash(only, node("a", 1), busy) == (Reason.SHARE_MODE_NOT_OFFERED, "needs mps/mig, a/0 is timeslice now")
    nothing = changed(node("a", 1), share=())
    assert clash(wish, nothing) == (Reason.SHARE_MODE_NOT_OFFERED, "needs a share of a device, a/0 is exclusive now")


def test_a_walled_tenant_has_a_device_of_its_own() -> None:
    there = holding("x", Slice("a/0", MPS), tenant="other")
    wish = pod("p", compute=100, share=(MPS,), isolation=Isolation.OWN_DEVICE)
    assert clash(wish, node("a", 1), there) == (
        Reason.ISOLATION_TIER,
        "needs a device of its own, a/0 holds other tenants",
    )


def exclusive(demand: Demand, *there: Pod) -> Slice | Verdict:
    room = room_of(node("a", 1), there, CATALOGUE).devices["a/0"]
    return fits_device(pod("p"), demand, room, (ALONE,))


def test_a_share_that_takes_a_device_alone_must_not_be_more_than_the_device() -> None:
    alone = Slice("a/0", ALONE, memory_mib=81_920, compute_milli=1000, bandwidth_milli=1000)
    assert exclusive(Demand(memory_mib=81_920, compute_milli=1000, bandwidth_milli=1000)) == alone
    large, quick = Demand(memory_mib=81_921), Demand(compute_milli=1001)
    broad = Demand(bandwidth_milli=1500, compute_milli=9)
    for demand, reason, sentence in (
        (large, Reason.MEMORY_TOO_SMALL, "needs 80.001 GiB, a/0 has 80 GiB"),
        (quick, Reason.COMPUTE_TOO_SMALL, "needs 100.1 % of a/0, one device is 100 %"),
        (broad, Reason.COMPUTE_TOO_SMALL, "needs 150 % of a/0, one device is 100 %"),
    ):
        found = exclusive(demand)
        assert isinstance(found, Verdict)
        assert (found.reason, found.sentence) == (reason, sentence)
    busy = exclusive(Demand(), whole("a/0"))
    assert isinstance(busy, Verdict)
    assert (busy.reason, busy.sentence) == (Reason.NO_CAPACITY, "needs a free device, a/0 is taken")


def cut(start: int, slots: int, name: str) -> Slice:
    return Slice("a/0", MIG, name, start, slots)


def sliced(demand: Demand, *there: Slice, geometry: Geometry = A100) -> Slice | Verdict:
    room = DeviceRoom(Device("a/0", "big", MIG), msgspec.structs.replace(BIG, mig=geometry))
    for part in there:
        room.take(part, pod("x"))
    return fits_device(pod("p"), demand, room, (MIG,))


def test_the_smallest_profile_that_covers_memory_compute_and_bandwidth_is_cut() -> None:
    assert sliced(Demand(memory_mib=9_728, compute_milli=142)) == Slice(
        "a/0", MIG, "1g.10gb", 6, 1, memory_mib=9_728, compute_milli=142, bandwidth_milli=125
    )
    for demand, name in (
        (Demand(memory_mib=9_729), "1g.20gb"),
        (Demand(compute_milli=143), "2g.20gb"),
        (Demand(bandwidth_milli=143), "2g.20gb"),
        (Demand(bandwidth_milli=285), "3g.40gb"),
        (Demand(compute_milli=427), "4g.40gb"),
        (Demand(memory_mib=77_824, compute_milli=994), "7g.80gb"),
    ):
        found = sliced(demand)
        assert isinstance(found, Slice)
        assert found.profile == name
    none = sliced(Demand(memory_mib=77_825, compute_milli=100))
    assert isinstance(none, Verdict)
    assert (none.reason, none.sentence) == (
        Reason.MEMORY_TOO_SMALL,
        "needs 76.001 GiB and 10 %, largest slice is 76 GiB",
    )


def test_a_profile_with_a_media_engine_is_never_given_unasked() -> None:
    media = Geometry(8, 7, (profile("1g.10gb+me", 1, (0,), 1, 1), profile("2g.20gb", 2, (0, 2), 2, 3)))
    found = sliced(Demand(memory_mib=1000), geometry=media)
    assert isinstance(found, Slice)
    assert found.profile == "2g.20gb"


def test_a_slice_needs_free_slots_compute_slices_and_instances() -> None:
    half = cut(0, 4, "3g.40gb")
    again = sliced(Demand(memory_mib=38_912), half)
    assert isinstance(again, Slice)
    assert (again.profile, again.start) == ("3g.40gb", 4)
    full = sliced(Demand(compute_milli=500), cut(0, 4, "4g.40gb"))
    assert isinstance(full, Verdict)
    assert (full.reason, full.sentence) == (
        Reason.FRAGMENTED,
        "needs a slice of 0 GiB, largest free slice of a/0 is 38 GiB",
    )
    few = Geometry(8, 3, (profile("2g.20gb", 2, (0, 2, 4), 2, 3), profile("1g.10gb", 1, (6,), 1, 1)))
    left = sliced(Demand(compute_milli=200), cut(0, 2, "2g.20gb"), geometry=few)
    assert isinstance(left, Verdict), "one compute slice is left"
    rare = Geometry(8, 7, (profile("1g.10gb", 1, (0, 1, 2), 1, 2),))
    assert isinstance(sliced(Demand(), cut(0, 1, "1g.10gb"), geometry=rare), Slice)
    assert isinstance(sliced(Demand(), cut(0, 1, "1g.10gb"), cut(1, 1, "1g.10gb"), geometry=rare), Verdict)


def test_the_largest_free_part_of_a_device_hangs_on_its_mode() -> None:
    def largest(mode: ShareMode, *there: Slice, of: AcceleratorProfile = BIG) -> int:
        room = DeviceRoom(Device("a/0", "big"), of)
        for part in there:
            room.take(part, pod("x"))
        return largest_free(room, mode)

    assert [largest(mode) for mode in (ALONE, MPS, MIG)] == [81_920, 81_920, 77_824]
    assert largest(ALONE, Slice("a/0", ALONE)) == 0
    assert largest(MPS, Slice("a/0", MPS, memory_mib=1920)) == 80_000
    assert largest(MIG, cut(0, 4, "3g.40gb")) == 38_912
    assert largest(MIG, cut(0, 4, "3g.40gb"), cut(4, 4, "3g.40gb")) == 0
    assert largest(MIG, Slice("a/0", MIG, memory_mib=1920), of=SMALL) == SMALL.memory_mib - 1920
