"""GPU nodes full of pods: everything bound, nothing twice, and how fast beside kube-scheduler in the same run."""

from __future__ import annotations

import pytest

from lab.fixtures import LabFactory
from tests.kube.rates import FEW, MANY, Crowd, ours, theirs
from tests.kube.world import install_crds

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("crowd", [FEW, pytest.param(MANY, marks=pytest.mark.full)], ids=["100-on-10", "500-on-50"])
def test_pods_are_bound_rightly_by_both_and_the_ratio_is_told(
    lab_factory: LabFactory, capsys: pytest.CaptureFixture[str], crowd: Crowd
) -> None:
    """Both runs end with the independent checker; a rate is measured, not asserted: the machine may be anybody's."""
    cluster = lab_factory(["test"], default_run_s=100_000.0, first=install_crds)["test"]
    cluster.add_nodes(crowd.nodes())
    cluster.kill("kube-scheduler")
    kube = theirs(cluster, crowd)
    dure = ours(cluster, crowd)
    with capsys.disabled():
        print(f"\nbinding rate: dure {dure:.0f}/s, kube-scheduler {kube:.0f}/s, ratio {dure / kube:.2f}")
