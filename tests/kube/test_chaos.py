"""Whatever is killed, and however long the plane is away: nothing is lost, nothing runs twice."""

from __future__ import annotations

import pytest

from lab.fixtures import LabFactory
from lab.rest import Json
from tests.fixtures.small_world import desired, training
from tests.kube.chaos import play
from tests.kube.checker import broken_gangs, overcommitted
from tests.kube.world import FixedPlane, install_crds, member_of, spec_of, until

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_nothing_is_lost_or_done_twice_over_three_kills() -> None:
    result = play(seed=3, kills=3, jobs=8)
    assert len(result["killed"]) == 3
    assert (result["lost"], result["twice"], result["overcommitted"]) == ([], [], [])


def test_forty_jobs_finish_while_the_plane_is_away_and_are_reported_when_it_is_back(
    lab_factory: LabFactory,
) -> None:
    cluster = lab_factory(["test"], off={"test": {"kube-scheduler"}}, default_run_s=1.0, first=install_crds)["test"]
    cluster.add_nodes([{"group": "big", "count": 4, "gpu": {"count": 8}, "labels": {"dure.dev/pool": "big"}}])
    plane = FixedPlane(*(desired(training(f"job-{one}", gang=1 + one % 3)) for one in range(40)))
    member = member_of(cluster, spec_of(cluster, big="big"), plane)
    member.cluster.start()
    for one in plane.desired:
        member.cluster.apply(one)
    plane.away = True
    member.runner.start()

    def phases() -> list[str]:
        found: list[Json] = cluster.api.get("/apis/dure.dev/v1alpha1/placements")["items"]
        return [one.get("status", {}).get("phase", "") for one in found]

    until(lambda: phases().count("Done") == 40, "40 jobs to finish without a plane", 300.0)
    assert plane.reports == []
    assert overcommitted(cluster.api) == broken_gangs(cluster.api) == []
    plane.away = False
    member.runner.wake()
    until(lambda: bool(plane.reports), "a report")
    member.runner.stop()
    member.cluster.stop()
    assert [seen.succeeded for seen in plane.reports[-1].observed if seen.failed or seen.lost] == []
    assert sum(seen.finished_s is not None for seen in plane.reports[-1].observed) == 40
