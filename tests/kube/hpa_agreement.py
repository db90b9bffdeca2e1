"""Dure's mirror of the autoscaler against the real kube-controller-manager, tick by tick.

    make agree                                   10 traces, 1,000 ticks each, about 35 minutes
    python -m tests.kube.hpa_agreement --ticks 20

A lab cluster whose controller-manager runs the autoscaler alone; its metrics come from here. One question of an
autoscaler is one tick: what it found (spec, status) is read, what it will find next is written, and the answer is
held back until the next point of a time grid. When it asks again the controller's own log says at which moment it
decided on that answer and at which it noted a change (`hpa_log`): the mirror decides at the same moments, so that
both remember the same ages of everything, however long a machine with too much to do let the controller wait. What
its log does not tell is when it saw the pods: in traces with pods that differ, a tick that took some tenths of a
second too long makes the ticks of the longest window after it unsure; those are counted apart. A change that the
controller could not write is no decision and is remembered by nobody; it is unsure as well. The controller writes its
reasons into a status that it reads from a watch: where that comes late it loses a write (and says so in its log), not
the decision. Such ticks are counted as lost.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence

import msgspec

from dure.scale.hpa.engine import Outcome, sync
from dure.scale.hpa.normalize import HpaState
from dure.scale.hpa.observe import Missing, PerPod, Pod, Sight, Total
from dure.scale.hpa.spec import Resource
from lab.cluster import CONTROLLER_MANAGER, Cluster
from lab.lab import Lab
from lab.metrics_api import MetricsApi, Question
from lab.progress import say
from lab.rest import Json
from tests.kube.hpa_log import VERBOSE, SharedLog, remembered
from tests.kube.hpa_traces import (
    AGES_AGO_S,
    FLAGS,
    LONGEST_S,
    NAMESPACE,
    STEP_S,
    WINDOW_S,
    Trace,
    manifest,
    pods_of,
    readings,
    traces,
)

# Shorter than a step by what answers are held back at most. The controller looks at every autoscaler again once a
# second, whatever else it does: while it waits for an answer it would already have a next sync in its queue.
SYNC_S = 1.6
SLACK_S = 0.4
# Nobody who is active is silent for that long.
QUIET_S = 20.0
PROGRESS_S = 60.0
LAB_FLAGS = {
    "kube-apiserver": ["--feature-gates=HPAScaleToZero=true"],
    "kube-controller-manager": [
        "--feature-gates=HPAScaleToZero=true",
        "--controllers=horizontal-pod-autoscaler-controller,serviceaccount-controller",
        VERBOSE,
        f"--horizontal-pod-autoscaler-sync-period={SYNC_S}s",
        f"--horizontal-pod-autoscaler-downscale-stabilization={FLAGS.downscale_window_s}s",
        f"--horizontal-pod-autoscaler-cpu-initialization-period={FLAGS.cpu_initialization_s}s",
        f"--horizontal-pod-autoscaler-initial-readiness-delay={FLAGS.readiness_delay_s}s",
        "--concurrent-horizontal-pod-autoscaler-syncs=20",
    ],
}
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"


# One moment on the monotonic clock, on the calendar to a second as objects carry it, and exactly.
Began = tuple[float, datetime.datetime, float]


class Tick(msgspec.Struct, frozen=True):
    """One decision of both: replica count and the reasons of the three conditions."""

    trace: str
    number: int
    before: int
    real: tuple[int, str, str, str]
    mirror: tuple[int, str, str, str]
    sure: bool
    lost: bool

    @property
    def differs(self) -> bool:
        return self.real[0] != self.mirror[0]

    @property
    def told_otherwise(self) -> bool:
        return self.real[1:] != self.mirror[1:] and not self.lost


class Player:
    """One trace: answers its autoscaler's questions, keeps the mirror beside it, judges each tick at the next."""

    def __init__(
        self, cluster: Cluster, trace: Trace, ticks: int, moving: bool, began: Began, log: SharedLog
    ) -> None:
        self.trace, self.judged, self._log = trace, list[Tick](), log
        self.done = threading.Event()
        self._api, self._ticks, self._moving = cluster.api, ticks, moving
        self._began_s, self._began, self._epoch_s = began
        self._state, self._sight = HpaState(), Sight(0.0, 0, 0)
        self._reasons: dict[str, str] = {}
        self._version = ""
        self._woken = 0
        self._pods: tuple[Pod, ...] = ()
        self._slot, self._anchor_s, self._replied_s, self._off_s = 0, 0.0, 0.0, -1e9
        self._asked = False

    def prepare(self) -> None:
        """The pods that are there when the autoscaler first looks."""
        self._set_pods(self.trace.start)

    def answer(self, number: int) -> list[Json] | None:
        """Items for the metric of that number; the first of a sync begins the tick."""
        if number == 0 and not self.done.is_set():
            self._begin()
        reading = self._sight.readings[number]
        match reading:
            case Missing():
                return None
            case Total():
                return [self._item(self.trace.spec.metrics[number].name, value) for value in reading.values]
            case PerPod():
                metric = self.trace.spec.metrics[number]
                resource = isinstance(metric, Resource)
                return [
                    self._usage(name, sample.value) if resource else self._pod_item(metric.name, name, sample.value)
                    for name, sample in reading.samples.items()
                ]

    def wake(self) -> None:
        """Brought to zero, and the note about that lost: nobody asks any more until its owner scales it up."""
        if self.done.is_set() or time.monotonic() - self._began_s - self._replied_s < QUIET_S:
            return
        found = self._api.get(f"{DEPLOYMENTS}/{self.trace.name}")
        if self._asked and int(found["spec"]["replicas"]) == 0:
            self._judge(self._replied_s + SYNC_S, 0)
            self._asked, self._off_s = False, time.monotonic() - self._began_s
            self._woken += 1
            self._api.patch(f"{DEPLOYMENTS}/{self.trace.name}", {"spec": {"replicas": 1}})

    def _begin(self) -> None:
        asked_s = time.monotonic() - self._began_s
        found = self._api.get(f"{DEPLOYMENTS}/{self.trace.name}")
        spec, status = int(found["spec"]["replicas"]), int(found.get("status", {}).get("replicas", 0))
        if self._asked:
            self._judge(asked_s, spec)
        elif not self._woken:
            self._first(asked_s, spec)
        else:
            self._anchor_s, self._slot = asked_s, 0
        if len(self.judged) >= self._ticks:
            self.done.set()
            return
        self._follow(spec, status)
        if self._moving:
            self._set_pods(spec)
        self._wait()
        tick = len(self.judged)
        shown = readings(self.trace, tick, spec, self._pods)
        self._sight = Sight(self._replied_s, spec, status, shown, self._pods)
        self._asked = True

    def _first(self, asked_s: float, spec: int) -> None:
        """The time grid begins now; a start outside the range was put right one sync before, without a question."""
        self._anchor_s = asked_s
        if spec != self.trace.start:
            early = Sight(asked_s - SYNC_S, self.trace.start, self.trace.start)
            outcome = sync(self.trace.spec, self._state, early, FLAGS)
            self._state = outcome.state
            self._note(outcome)
        self._log.take(self.trace.name)

    def _mirrored(self) -> tuple[Outcome, bool]:
        """The mirror's decision at the moment of the controller's, and whether that one could be written."""
        decided = self._log.take(self.trace.name)
        real = decided[-1] if decided else None
        now_s = real.begin_s - self._epoch_s if real is not None else self._sight.now_s
        outcome = sync(self.trace.spec, self._state, msgspec.structs.replace(self._sight, now_s=now_s), FLAGS)
        unwritten = outcome.rescale and real is None
        self._state = outcome.state_unwritten if unwritten else outcome.state
        if real is not None:
            self._state = remembered(self._state, now_s, real.end_s - self._epoch_s)
        if not unwritten:
            self._note(outcome)
        return outcome, not unwritten

    def _judge(self, asked_s: float, spec: int) -> None:
        outcome, written = self._mirrored()
        found = self._api.get(f"{HPAS}/{self.trace.name}")
        real = {one["type"]: one["reason"] for one in found["status"]["conditions"]}
        # The controller's own note; with a lost write it is lost as well.
        self._state = msgspec.structs.replace(self._state, scaled_to_zero=real.get("ScaledToZero") == "ScaledToZero")
        lost, self._version = (
            found["metadata"]["resourceVersion"] == self._version,
            found["metadata"]["resourceVersion"],
        )
        if self.trace.pods and asked_s - SYNC_S - self._replied_s > SLACK_S:
            self._off_s = self._replied_s
        sure = written and self._replied_s - self._off_s > LONGEST_S
        tick = Tick(
            self.trace.name,
            len(self.judged),
            self._sight.spec_replicas,
            _said(spec, real),
            _said(outcome.replicas, self._reasons),
            sure,
            lost,
        )
        self.judged.append(tick)

    def _note(self, outcome: Outcome) -> None:
        """Conditions stay as they were until a sync sets them again."""
        self._reasons |= {condition.kind: condition.reason for condition in outcome.conditions}

    def _follow(self, spec: int, status: int) -> None:
        """The status the autoscaler finds at its next sync."""
        step = self.trace.lag or abs(spec - status)
        new = status + max(-step, min(step, spec - status))
        if new != status:
            self._api.patch(f"{DEPLOYMENTS}/{self.trace.name}/status", {"status": {"replicas": new}})

    def _set_pods(self, replicas: int) -> None:
        wanted = pods_of(self.trace, replicas)
        for pod in self._pods[len(wanted) :]:
            self._api.delete(f"{PODS}/{pod.name}")
        for pod in wanted[len(self._pods) :]:
            self._api.post(PODS, self._pod(pod))
            self._api.patch(f"{PODS}/{pod.name}/status", {"status": self._status(pod)})
        self._pods = wanted

    def _wait(self) -> None:
        """Until the next point of the grid; the first tick is the grid's beginning."""
        if self._asked:
            now_s = time.monotonic() - self._began_s
            self._slot = max(self._slot + 1, int((now_s - self._anchor_s) / STEP_S) + 1)
            at_s = self._anchor_s + self._slot * STEP_S
            time.sleep(max(0.0, at_s - (time.monotonic() - self._began_s)))
        self._replied_s = time.monotonic() - self._began_s
        if self.trace.pods and self._replied_s - (self._anchor_s + self._slot * STEP_S) > SLACK_S:
            self._off_s = self._replied_s

    def _pod(self, pod: Pod) -> Json:
        requests = {"resources": {"requests": {"cpu": f"{pod.request}m"}}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod.name, "labels": {"app": self.trace.name}},
            "spec": {"containers": [{"name": "main", "image": "lab/none", **requests}]},
        }

    def _status(self, pod: Pod) -> Json:
        ready = {
            "type": "Ready",
            "status": "True" if pod.ready else "False",
            "lastTransitionTime": self._time(pod.ready_since_s),
        }
        return {"phase": pod.phase, "startTime": self._time(-AGES_AGO_S), "conditions": [ready]}

    def _time(self, relative_s: float) -> str:
        return (self._began + datetime.timedelta(seconds=relative_s)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _item(self, metric: str, value: int) -> Json:
        stamp = {"timestamp": self._time(-10), "value": f"{value}m"}
        about = {"kind": "Service", "apiVersion": "v1", "name": "front", "namespace": NAMESPACE}
        return {
            "metricName": metric,
            "metricLabels": {},
            "describedObject": about,
            "metric": {"name": metric},
            **stamp,
        }

    def _pod_item(self, metric: str, pod: str, value: int) -> Json:
        about = {"kind": "Pod", "apiVersion": "v1", "name": pod, "namespace": NAMESPACE}
        stamp = {"timestamp": self._time(-10), "value": f"{value}m"}
        return {"describedObject": about, "metric": {"name": metric}, **stamp}

    def _usage(self, pod: str, value: int) -> Json:
        return {
            "metadata": {"name": pod, "namespace": NAMESPACE, "labels": {"app": self.trace.name}},
            "timestamp": self._time(-10),
            "window": f"{WINDOW_S}s",
            "containers": [{"name": "main", "usage": {"cpu": f"{value}m"}}],
        }


def play(cluster: Cluster, chosen: Sequence[Trace], ticks: int, *, moving: bool = False) -> list[Tick]:
    """All traces side by side on one cluster; every judged tick. `moving` lets pods come and go with the replicas."""
    epoch_s = time.time()
    began = (time.monotonic(), datetime.datetime.fromtimestamp(int(epoch_s), datetime.UTC), epoch_s)
    log = SharedLog(cluster.log(CONTROLLER_MANAGER))
    players = {trace.name: Player(cluster, trace, ticks, moving, began, log) for trace in chosen}
    errors: list[BaseException] = []

    def answer(question: Question) -> list[Json] | None:
        name, _, number = question.metric.rpartition("-")
        player = players[name or question.selector.partition("=")[2]]
        try:
            return player.answer(int(number or 0))
        except BaseException as error:
            errors.append(error)
            player.done.set()
            raise

    cluster.apply(*(_deployment(trace) for trace in chosen))
    for trace in chosen:
        cluster.api.patch(f"{DEPLOYMENTS}/{trace.name}/status", {"status": {"replicas": trace.start}})
        players[trace.name].prepare()
    with MetricsApi(cluster, answer):
        cluster.apply(*(manifest(trace) for trace in chosen))
        deadline_s, shown_s = time.monotonic() + ticks * STEP_S * 3 + 300.0, 0.0
        while not all(player.done.wait(1.0) for player in players.values()):
            for player in players.values():
                player.wake()
            if time.monotonic() - shown_s > PROGRESS_S:
                shown_s = time.monotonic()
                slowest = min(players.values(), key=lambda player: len(player.judged))
                say(f"agree: {slowest.trace.name} is at tick {len(slowest.judged)} of {ticks}")
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not all came to tick {ticks}")
        cluster.kubectl("delete", "hpa", "--all")
    if errors:
        raise errors[0]
    return [tick for player in players.values() for tick in player.judged]


def summary(ticks: Sequence[Tick]) -> Json:
    """Counts by trace, and the first differences if there are any."""
    by_trace: Json = {}
    for name in dict.fromkeys(tick.trace for tick in ticks):
        mine = [tick for tick in ticks if tick.trace == name]
        by_trace[name] = {
            "decisions": len(mine),
            "unsure": sum(not tick.sure for tick in mine),
            "changes": sum(tick.real[0] != tick.before for tick in mine),
            "differing": sum(tick.differs and tick.sure for tick in mine),
            "differing_unsure": sum(tick.differs and not tick.sure for tick in mine),
            "lost": sum(tick.lost and tick.real[1:] != tick.mirror[1:] for tick in mine),
            "told_otherwise": sum(tick.told_otherwise for tick in mine),
            "kinds_of_reasons": len({tick.real[1:] for tick in mine}),
        }
    total = {
        key: sum(row[key] for row in by_trace.values())
        for key in ("decisions", "unsure", "changes", "differing", "differing_unsure", "lost", "told_otherwise")
    }
    first = [msgspec.to_builtins(tick) for tick in ticks if tick.differs or tick.told_otherwise][:20]
    return {"total": total, "traces": by_trace, "differences": first}


def _said(replicas: int, reasons: Mapping[str, str]) -> tuple[int, str, str, str]:
    able, active, limited = (reasons.get(kind, "") for kind in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    return replicas, able, active, limited


def _deployment(trace: Trace) -> Json:
    labels = {"app": trace.name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "lab/none"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": trace.name, "namespace": NAMESPACE},
        "spec": {"replicas": trace.start, "selector": {"matchLabels": labels}, "template": template},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare Dure's autoscaler with the real controller, tick by tick.")
    parser.add_argument("--ticks", type=int, default=1000)
    parser.add_argument("--only", default="", help="names of traces, comma separated")
    options = parser.parse_args()
    chosen = [trace for trace in traces() if not options.only or trace.name in options.only.split(",")]
    off = {"test": {"kube-scheduler", "kwok"}}
    with Lab(["test"], off=off, flags={"test": LAB_FLAGS}) as lab:
        result = summary(play(lab["test"], chosen, options.ticks, moving=True))
    print(json.dumps(result, indent=2))
    return 1 if result["total"]["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
