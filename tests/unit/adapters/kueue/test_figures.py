"""What a ClusterQueue shows, in both versions of Kueue's API."""

from __future__ import annotations

import msgspec

from dure.adapters.kueue.figures import capacity, counted, demand, figures, view
from dure.adapters.kueue.objects import ClusterQueue, Workload


def queue(**spec: object) -> ClusterQueue:
    resources = [{"name": "cpu", "nominalQuota": "500m"}, {"name": "nvidia.com/gpu", "nominalQuota": 4}]
    raw = {
        "metadata": {"name": "q"},
        "spec": {"resourceGroups": [{"flavors": [{"name": "t4", "resources": resources}]}], **spec},
        "status": {
            "conditions": [{"type": "Active", "status": "True"}],
            "flavorsReservation": [
                {"name": "t4", "resources": [{"name": "nvidia.com/gpu", "total": "6", "borrowed": "2"}]}
            ],
            "flavorsUsage": [{"name": "t4", "resources": [{"name": "nvidia.com/gpu", "total": "5"}]}],
            "pendingWorkloads": 7,
            "reservingWorkloads": 6,
            "admittedWorkloads": 5,
        },
    }
    return msgspec.convert(raw, ClusterQueue)


def test_quota_reservation_use_and_borrowing_are_told_by_flavor_and_resource() -> None:
    cpu, gpu = view(queue()).amounts
    assert (cpu.nominal, cpu.reserved, cpu.available) == (0.5, 0, 0.5)
    assert (gpu.nominal, gpu.reserved, gpu.used, gpu.available, gpu.borrowed) == (4, 6, 5, -2, 2)
    assert figures(queue()).free == {"cpu": 500, "nvidia.com/gpu": -2000}
    assert capacity(queue()) == {"cpu": 500, "nvidia.com/gpu": 4000}


def test_the_cohort_has_another_name_in_the_older_version() -> None:
    assert view(queue(cohortName="team")).cohort == view(queue(cohort="team")).cohort == "team"


def test_a_stopped_queue_says_why() -> None:
    assert view(queue()).active
    held = view(queue(stopPolicy="Hold"))
    assert not held.active
    assert "Hold" in held.why_not


def test_a_workloads_pod_sets_are_added_and_only_what_is_covered_counts() -> None:
    pods = {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}}}]}
    found = msgspec.convert({"spec": {"podSets": [{"count": 3, "template": {"spec": pods}}]}}, Workload)
    assert demand(found)["cpu"] == 6000
    assert counted(demand(found), {"cpu": 1}) == {"cpu": 6000, "nvidia.com/gpu": 3000}
