"""Defragmentation on a period and on a wish: a plan is acted on only if it still holds a cycle after it was made.

Called by the agent's cycle, for embedded and real clusters alike. Invariant: nothing is moved by a plan that
`still_valid` has not confirmed on a newer look at the cluster, and training moves only just after a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dure.agent.keeping import KEEP_S, PASS, Keep, busy, chosen, guarded, holds
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, Pod, PodPhase, holders
from dure.model.decision import Evict
from dure.model.defrag import DefragAnswer, DefragPlan, DefragState, DefragWish, How, PodMove, WantedRoom
from dure.model.reason import Reason, Verdict
from dure.model.units import Instant, Seconds
from dure.pack import Memory, PackSettings
from dure.pack.defrag import plan_empty, plan_room, still_valid, whole_devices
from dure.pack.seating import USUAL as PACKING

# A wish that lay about for longer than this was for another world; so is a plan that no checkpoint lets go on.
WISH_S = 3600.0
LAPSE_S = 3600.0
# Of whose turn it is the plane tells with every answer; when it has been silent for so long, nodes are free again.
TURN_S = 900.0


class TidySettings(msgspec.Struct, frozen=True):
    """`compact` empties nodes when nothing waits; a training pod moves within `fresh_s` of its last checkpoint."""

    period_s: Seconds = 300.0
    fresh_s: Seconds = 60.0
    compact: bool = False


USUAL = TidySettings()


class Tidy:
    """Remembers the plan between the cycle that makes it and the cycle that may act on it.

    `answer` is what became of the newest wish; it is reported until there is another.
    """

    def __init__(self, catalogue: Catalogue, settings: TidySettings = USUAL, packing: PackSettings = PACKING) -> None:
        self.catalogue = catalogue
        self.settings = settings
        self.packing = packing
        self.plan: DefragPlan | None = None
        self.answer: DefragAnswer | None = None
        self._wanted = self._workload = ""
        self._next_s: Instant = 0.0
        self._lapses_s: Instant = 0.0
        self._keeps: dict[str, Keep] = {}
        self._turns: dict[str, tuple[WantedRoom, Keep]] = {}

    def view(self, state: ClusterState) -> tuple[str, ClusterState]:
        """The nodes that are kept for somebody now, if any, and the cluster as the packer should see it."""
        self._keeps = {name: keep for name, keep in self._keeps.items() if holds(keep, state)}
        self._turns = {
            name: (wanted, replace(keep, nodes=chosen(wanted, state, keep.nodes)))
            for name, (wanted, keep) in self._turns.items()
            if holds(keep, state)
        }
        keeps = [*self._keeps.values(), *(keep for _, keep in self._turns.values())]
        return ",".join(node for keep in keeps for node in keep.nodes), guarded(state, keeps)

    def keep_for(self, turns: Sequence[WantedRoom], now_s: Instant) -> None:
        """The plane says whose turn it is in torn pools, all of them."""
        kept = {name: keep.nodes for name, (_, keep) in self._turns.items()}
        self._turns = {
            one.workload: (one, Keep(kept.get(one.workload, ()), one.workload, now_s + TURN_S)) for one in turns
        }

    def keep(self, nodes: Sequence[str], workload: str, now_s: Instant) -> None:
        """Others have left these nodes for it, or are about to: who comes back in their stead goes elsewhere."""
        self._keeps[workload] = Keep(tuple(nodes), workload, now_s + KEEP_S)

    def step(self, state: ClusterState, memory: Memory, wish: DefragWish | None = None) -> list[Evict]:
        """The pods to move now: those of the last plan if it still holds; else a plan is made, once in a period."""
        if wish is not None and self._is_new(wish, state.now_s):
            self._hear(wish, state, memory)
            return []
        plan, self.plan = self.plan, None
        if plan is not None:
            if self._needed(state) and still_valid(plan, state, self.catalogue):
                return self._act(plan, state, memory)
            self._tell(plan, DefragState.DROPPED, state.now_s, "the cluster changed before the plan was carried out")
        if state.now_s >= self._next_s:
            self._next_s = state.now_s + self.settings.period_s
            self.plan, self._lapses_s = self._make(state, memory), state.now_s + LAPSE_S
        return []

    def failed(self, why: str, now_s: Instant) -> None:
        """The cluster did not take the moves that `step` answered last."""
        if self.answer is not None and self.answer.state is DefragState.MOVED and self.answer.at_s == now_s:
            note = f"the cluster did not take the moves: {why}"
            self.answer = replace(self.answer, state=DefragState.DROPPED, note=note)

    def _is_new(self, wish: DefragWish, now_s: Instant) -> bool:
        known = self.answer is not None and self.answer.wish == wish.id
        return not known and now_s - wish.asked_s <= WISH_S

    def _hear(self, wish: DefragWish, state: ClusterState, memory: Memory) -> None:
        """Answer with a plan; with `apply` it takes the place of the period's and is looked at again next time."""
        waiting = _first_waiting(state)
        plan, note = self._wished(wish, waiting, state, memory)
        found = DefragState.PLANNED if plan is not None else DefragState.NOTHING
        self.answer = DefragAnswer(state.cluster, wish.id, state.now_s, found, wish.apply, plan, note)
        if plan is not None and wish.apply:
            self.plan, self._wanted = plan, waiting.uid if waiting is not None else ""
            self._lapses_s = state.now_s + LAPSE_S
            held = wish.wanted.workload if wish.wanted is not None else ""
            self._workload = waiting.workload if waiting is not None else held

    def _wished(
        self, wish: DefragWish, waiting: Pod | None, state: ClusterState, memory: Memory
    ) -> tuple[DefragPlan | None, str]:
        """Room for the pod that waits here, else for the workload that the plane holds, else an empty node."""
        if waiting is not None:
            plan = plan_room(state, self.catalogue, waiting, memory, packing=self.packing)
            return plan, "" if plan else f"no allowed moves make room for {waiting.name}"
        if wish.wanted is not None:
            wanted = wish.wanted
            stand_in = whole_devices(wanted.classes, wanted.devices, wanted.pool)
            plan = plan_room(state, self.catalogue, stand_in, memory, packing=self.packing)
            if plan is not None:
                return replace(plan, goal=f"{plan.goal} for {wanted.workload}, which is held"), ""
            return None, f"no allowed moves bring {wanted.devices} free devices together for {wanted.workload}"
        plan = plan_empty(state, self.catalogue, memory)
        return plan, "" if plan else "no node in use can be emptied: its pods may not move or have no other seat"

    def _make(self, state: ClusterState, memory: Memory) -> DefragPlan | None:
        waiting = _first_waiting(state)
        self._wanted = waiting.uid if waiting is not None else ""
        self._workload = waiting.workload if waiting is not None else ""
        if waiting is not None:
            return plan_room(state, self.catalogue, waiting, memory, packing=self.packing)
        for wanted, keep in self._turns.values():
            plan = self._for_turn(wanted, keep, state, memory)
            if plan is not None:
                self._workload = wanted.workload
                return plan
        if self.settings.compact and all(pod.node for pod in state.pods):
            return plan_empty(state, self.catalogue, memory)
        return None

    def _for_turn(self, wanted: WantedRoom, keep: Keep, state: ClusterState, memory: Memory) -> DefragPlan | None:
        """Moves off one of the kept nodes that are not free yet; nobody is moved onto another of them."""
        here = holders(state)
        mine = [node for node in state.nodes if node.name in keep.nodes]
        left = {node.name: len(node.devices) - len(busy(node, here.get(node.name, []))) for node in mine}
        lacking = {name for name, free in left.items() if free < wanted.devices}
        if not lacking:
            return None
        others = tuple(node for node in state.nodes if node.name in lacking or node.name not in keep.nodes)
        view = guarded(replace(state, nodes=others), [Keep(tuple(sorted(lacking)), "", state.now_s)])
        stand_in = replace(whole_devices(wanted.classes, wanted.devices, wanted.pool), tolerations=(PASS,))
        plan = plan_room(view, self.catalogue, stand_in, memory, packing=self.packing)
        return plan if plan is not None and plan.node in lacking else None

    def _needed(self, state: ClusterState) -> bool:
        """Whether the demand that the plan was made for still waits; a plan to empty a node is for nobody."""
        return not self._wanted or any(pod.uid == self._wanted and _wide(pod) for pod in state.pods)

    def _act(self, plan: DefragPlan, state: ClusterState, memory: Memory) -> list[Evict]:
        """All moves of the plan, or none yet: a plan whose training pods are far from a checkpoint waits its turn."""
        pods = {(pod.name, pod.uid): pod for pod in state.pods}
        if not all(self._ripe(move, pods[move.pod, move.uid], state.now_s) for move in plan.moves):
            return self._wait(plan, state.now_s)
        self._tell(plan, DefragState.MOVED, state.now_s, "")
        memory.allowed(state).used += len(plan.moves)
        self.keep((plan.node,), self._workload, state.now_s)
        return [_evict(move, plan) for move in plan.moves]

    def _wait(self, plan: DefragPlan, now_s: Instant) -> list[Evict]:
        if now_s >= self._lapses_s:
            self._tell(
                plan, DefragState.DROPPED, now_s, "its training pods were never just after a checkpoint together"
            )
            return []
        self.plan = plan
        self._tell(plan, DefragState.WAITING, now_s, "training moves just after its next checkpoint")
        return []

    def _tell(self, plan: DefragPlan, how_far: DefragState, now_s: Instant, note: str) -> None:
        """Only what became of a wished plan; the period's own plans are in the journal once they are acted on."""
        answer = self.answer
        if answer is not None and answer.apply and answer.plan == plan and answer.state is not how_far:
            self.answer = replace(answer, at_s=now_s, state=how_far, note=note)

    def _ripe(self, move: PodMove, pod: Pod, now_s: Instant) -> bool:
        return move.how is not How.AT_CHECKPOINT or pod.unsaved_s(now_s) <= self.settings.fresh_s


def _wide(pod: Pod) -> bool:
    return pod.phase is PodPhase.PENDING and not pod.node and pod.gang == 1 and pod.demand.devices > 1


def _first_waiting(state: ClusterState) -> Pod | None:
    return min(filter(_wide, state.pods), key=_urgency, default=None)


def _urgency(pod: Pod) -> tuple[int, int, float, str]:
    return -pod.priority, -pod.demand.devices, pod.created_s, pod.name


def _evict(move: PodMove, plan: DefragPlan) -> Evict:
    # The plan's goal may name the workload it is made for, which is none of the moved one's business.
    why = Verdict(plan.node, Reason.FRAGMENTED, "room for a larger one", f"fits on {move.to_node} as well")
    return Evict(move.pod, move.uid, move.workload, why)
