"""How far a placed workload is, from its pods and its Job; the same is written into its Placement for people."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from dure.adapters.kube.objects import KubeJob, KubePlacement, condition, instant
from dure.adapters.kube.saving import Saved, saved_of
from dure.model.cluster import Pod, PodPhase
from dure.model.pulse import Pulse
from dure.model.report import Desired, Observed
from dure.model.units import Instant, Seconds
from dure.model.workload import WorkloadType

Json = dict[str, Any]


def desired_of(placement: KubePlacement) -> Desired:
    return msgspec.convert(placement.spec["desired"], Desired)


def observed(
    placement: KubePlacement, desired: Desired, pods: Sequence[Pod], job: KubeJob | None, now_s: Instant
) -> Observed:
    """`pods` are the workload's own that are not on their way out. What was noted as lost or finished stays so.

    What a gang's earlier generation still shows, pods or the hour of its start, says nothing of the present one.
    """
    status = placement.status
    generation = int(placement.spec["generation"])
    if desired.spec.type is not WorkloadType.SERVING:
        pods = [pod for pod in pods if pod.generation == generation]
        if int(status.get("applied", 0)) < generation:
            status = {**status, "startedSeconds": None}
    saved = saved_of(status, generation)
    lost = status.get("lost", "") if status.get("lostGeneration") == generation else ""
    phases = Counter(pod.phase for pod in pods)
    alive = [pod for pod in pods if pod.phase is not PodPhase.FAILED]
    size = desired.placement.replicas or desired.spec.size
    complete = job is not None and _true(job, "Complete")
    failed = job is not None and _true(job, "Failed")
    succeeded = size if complete else phases[PodPhase.SUCCEEDED]
    started_s = _started_s(alive, size, status)
    ended = desired.spec.type is not WorkloadType.SERVING and (succeeded >= size or failed)
    well = ended and not failed
    finished_s = _finished_s(pods, job, now_s) if ended else None
    waiting = next((pod.message for pod in pods if pod.phase is PodPhase.PENDING and pod.message), "")
    return Observed(
        uid=desired.uid,
        workload=desired.spec.name,
        generation=generation,
        pods=len(alive),
        bound=sum(pod.holds for pod in alive),
        ready=phases[PodPhase.RUNNING],
        succeeded=succeeded,
        failed=max(1, phases[PodPhase.FAILED]) if failed else 0,
        started_s=started_s,
        finished_s=finished_s,
        done_s=float(status.get("doneSeconds", 0.0))
        if lost
        else _done_s(desired, started_s, now_s if finished_s is None else finished_s, saved, well=well),
        saved_s=saved.at_s if saved is not None else None,
        requests=status.get("requests"),
        requests_good=status.get("requestsGood"),
        waiting=status.get("waiting"),
        pulse=msgspec.convert(status["pulse"], Pulse) if status.get("pulse") else None,
        lost=lost,
        message=waiting or lost or (_why_failed(job) if failed and job is not None else ""),
    )


def status_of(seen: Observed, placement: KubePlacement, now_s: Instant) -> Json:
    """What of the Placement's status should be another than it is; empty when all is told."""
    phase = _phase(seen)
    wanted: Json = {
        "phase": phase,
        "pods": seen.pods,
        "bound": seen.bound,
        "ready": seen.ready,
        "succeeded": seen.succeeded,
        "failed": seen.failed,
        "message": seen.message[:1024],
    }
    if seen.started_s is not None:
        wanted["startedSeconds"] = seen.started_s
    if seen.finished_s is not None:
        wanted["finishedSeconds"] = seen.finished_s
    changes = {key: value for key, value in wanted.items() if placement.status.get(key) != value}
    if "phase" in changes or "ready" in changes:
        changes["conditions"] = [_condition(seen, phase, placement, now_s)]
    return changes


def _condition(seen: Observed, phase: str, placement: KubePlacement, now_s: Instant) -> Json:
    state = "True" if seen.ready >= seen.pods > 0 else "False"
    before: Json = next((one for one in placement.status.get("conditions", ()) if one["type"] == "Ready"), {})
    same = before.get("status") == state
    moment = datetime.datetime.fromtimestamp(now_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    since = before.get("lastTransitionTime") if same else moment
    return {
        "type": "Ready",
        "status": state,
        "reason": phase,
        "message": seen.message[:512],
        "lastTransitionTime": since,
    }


def _phase(seen: Observed) -> str:
    if seen.lost:
        return "Lost"
    if seen.failed:
        return "Failed"
    if seen.finished_s is not None:
        return "Done"
    if seen.ready:
        return "Running"
    return "Starting" if seen.bound else "Pending"


def _started_s(pods: Sequence[Pod], size: int, status: Json) -> Instant | None:
    """When the last member was up; kept in the status once it was seen, as pods come and go."""
    if status.get("startedSeconds") is not None:
        return float(status["startedSeconds"])
    up = [pod.started_s for pod in pods if pod.started_s is not None]
    return max(up) if len(up) >= size else None


def _finished_s(pods: Sequence[Pod], job: KubeJob | None, now_s: Instant) -> Instant:
    ends = [pod.finished_s for pod in pods if pod.finished_s is not None]
    if job is not None and job.status.completion_time is not None:
        ends.append(instant(job.status.completion_time) or now_s)
    return max(ends, default=now_s)


def _done_s(
    desired: Desired, started_s: Instant | None, until_s: Instant, saved: Saved | None, *, well: bool
) -> Seconds:  # fmt: skip
    """Safe work: up to the last checkpoint, or all of it when it has ended well.

    The pods know their checkpoints; where they say nothing one is counted for every interval.
    """
    if started_s is None or desired.spec.type is WorkloadType.SERVING:
        return desired.done_s
    every_s, ran_s = desired.spec.checkpoint_s, max(0.0, until_s - started_s)
    if not well and saved is not None:
        ran_s = min(ran_s, saved.worked_s)
    elif not well:
        ran_s = ran_s // every_s * every_s if every_s > 0 else 0.0
    size = desired.placement.replicas or desired.spec.size
    return desired.done_s + ran_s * desired.spec.speed_with(desired.placement.class_name, size)


def _true(job: KubeJob, kind: str) -> bool:
    found = condition(job.status.conditions, kind)
    return found is not None and found.status == "True"


def _why_failed(job: KubeJob) -> str:
    found = condition(job.status.conditions, "Failed")
    return found.message if found is not None else ""
