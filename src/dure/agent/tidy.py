"""Defragmentation on a period: a plan is made when a wide demand waits, and acted on only if it holds a cycle later.

Called by the agent's cycle, for embedded and real clusters alike. Invariant: nothing is moved by a plan that
`still_valid` has not confirmed on a newer look at the cluster, and training moves only just after a checkpoint.
"""

from __future__ import annotations

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, PodPhase
from dure.model.decision import Evict
from dure.model.reason import Reason, Verdict
from dure.model.units import Instant, Seconds
from dure.pack import Memory
from dure.pack.defrag import DefragPlan, How, PodMove, plan_empty, plan_room, still_valid


class TidySettings(msgspec.Struct, frozen=True):
    """`compact` empties nodes when nothing waits; a training pod moves within `fresh_s` of its last checkpoint."""

    period_s: Seconds = 300.0
    fresh_s: Seconds = 60.0
    compact: bool = False


USUAL = TidySettings()


class Tidy:
    """Remembers the plan between the cycle that makes it and the cycle that may act on it."""

    def __init__(self, catalogue: Catalogue, settings: TidySettings = USUAL) -> None:
        self.catalogue = catalogue
        self.settings = settings
        self.plan: DefragPlan | None = None
        self._wanted = ""
        self._next_s: Instant = 0.0

    def step(self, state: ClusterState, memory: Memory) -> list[Evict]:
        """The pods to move now: those of the last plan if it still holds; else a plan is made, once in a period."""
        plan, self.plan = self.plan, None
        if plan is not None and self._needed(state) and still_valid(plan, state, self.catalogue):
            return self._act(plan, state)
        if state.now_s >= self._next_s:
            self._next_s = state.now_s + self.settings.period_s
            self.plan = self._make(state, memory)
        return []

    def _make(self, state: ClusterState, memory: Memory) -> DefragPlan | None:
        waiting = sorted(
            filter(_wide, state.pods), key=lambda p: (-p.priority, -p.demand.devices, p.created_s, p.name)
        )
        self._wanted = waiting[0].uid if waiting else ""
        if waiting:
            return plan_room(state, self.catalogue, waiting[0], memory)
        if self.settings.compact and all(pod.node for pod in state.pods):
            return plan_empty(state, self.catalogue, memory)
        return None

    def _needed(self, state: ClusterState) -> bool:
        """Whether the demand that the plan was made for still waits; a plan to empty a node is for nobody."""
        return not self._wanted or any(pod.uid == self._wanted and _wide(pod) for pod in state.pods)

    def _act(self, plan: DefragPlan, state: ClusterState) -> list[Evict]:
        """All moves of the plan, or none yet: a plan whose training pods are far from a checkpoint waits its turn."""
        pods = {pod.uid: pod for pod in state.pods}
        if not all(self._ripe(move, pods[move.uid], state.now_s) for move in plan.moves):
            self.plan = plan
            return []
        return [_evict(move, plan) for move in plan.moves]

    def _ripe(self, move: PodMove, pod: Pod, now_s: Instant) -> bool:
        if move.how is not How.AT_CHECKPOINT or pod.started_s is None:
            return True
        return (now_s - pod.started_s) % pod.checkpoint_s <= self.settings.fresh_s


def _wide(pod: Pod) -> bool:
    return pod.phase is PodPhase.PENDING and not pod.node and pod.gang == 1 and pod.demand.devices > 1


def _urgency(pod: Pod) -> tuple[int, int, float, str]:
    return -pod.priority, -pod.demand.devices, pod.created_s, pod.name


def _evict(move: PodMove, plan: DefragPlan) -> Evict:
    why = Verdict(plan.node, Reason.FRAGMENTED, plan.goal, f"fits on {move.to_node} as well")
    return Evict(move.pod, move.uid, move.workload, why)
