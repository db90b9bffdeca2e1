"""What a placed share asks of the kubelet hangs on how the nodes of its pool are cut."""

from __future__ import annotations

from dure.adapters.kube.instances import with_instances
from dure.adapters.kube.manifests import ask
from dure.model.accelerator import ShareMode
from tests.fixtures.small_world import CATALOGUE, GIB, desired, fraction, training

KNOWN = with_instances(CATALOGUE)


def test_a_share_that_dure_cuts_itself_asks_for_no_device() -> None:
    asked = ask(desired(fraction(), mode=ShareMode.MIG), KNOWN, 0.0, cut=False)
    assert set(asked.resources) == {"cpu", "memory"}
    assert asked.pod.share == (ShareMode.MIG,)


def test_on_nodes_with_fixed_instances_it_asks_for_the_smallest_that_covers_it() -> None:
    wanted = fraction(memory_mib=6 * GIB)
    asked = ask(desired(wanted, mode=ShareMode.MIG), KNOWN, 0.0, cut=True)
    assert asked.resources["nvidia.com/mig-2g.10gb"] == "1"
    assert (asked.pod.classes, asked.pod.demand.devices) == (("big/2g",), 1)


def test_a_replica_of_a_weaker_class_must_hold_more_of_the_same_work() -> None:
    """A tenth of the big device is half of the small one: no quarter of that is enough, and half of a tenth is."""
    much, little = (
        ask(
            desired(fraction(memory_mib=3 * GIB, compute_milli=milli), pool="small", mode=ShareMode.MPS),
            KNOWN, 0.0, cut=False, replicas=4,
        )
        for milli in (100, 50)
    )  # fmt: skip
    assert "nvidia.com/gpu" not in much.resources
    assert little.resources["nvidia.com/gpu"] == "1"
    assert little.pod.classes == ("small/1of4",)


def test_only_shares_change_their_shape_with_the_cut() -> None:
    share, whole = desired(fraction(), mode=ShareMode.MIG), desired(training())
    shapes = [
        [ask(one, KNOWN, at_s, cut=cut).shape for cut, at_s in ((False, 0.0), (True, 9.0))] for one in (share, whole)
    ]
    assert shapes[0][0] != shapes[0][1]
    assert shapes[1][0] == shapes[1][1]
