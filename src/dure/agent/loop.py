"""One agent's cycle: desired -> objects -> pack -> bind -> report. Level-triggered, killable between any two lines.

Everything it needs to know after a restart is in its own cluster; what the plane wants is asked anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from dure.agent.spells import SpotWatch
from dure.agent.tidy import Tidy
from dure.agent.view import Views, warm_models
from dure.model.catalogue import Catalogue
from dure.model.cluster import ClusterState, VNodePool
from dure.model.decision import Bind, Decision, Evict, Hold, Resize, ScaleNodes
from dure.model.defrag import DefragWish
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary
from dure.model.fleet import PoolSpec
from dure.model.report import Desired, DeviceView, Observed, Report
from dure.model.spell import PoolSpells
from dure.model.units import Instant
from dure.pack import Memory, PackSettings, Survey, pack
from dure.pack.seating import USUAL as PACKING
from dure.ports import Clock, ClusterPort, PlanePort

T = TypeVar("T")
R = TypeVar("R")

# Figures count as fresh for several minutes, so a quiet cluster may be quiet for one.
REPORT_EVERY_S = 60.0
# People who ask for defragmentation can wait this long.
WISH_EVERY_S = 5.0


class Agent:
    """Holds no truth: `_told` only keeps it from writing the same explanation in every cycle."""

    def __init__(
        self,
        cluster: ClusterPort,
        plane: PlanePort,
        catalogue: Catalogue,
        pools: Sequence[PoolSpec],
        clock: Clock,
        *,
        lanes: int = 1,
        packing: PackSettings = PACKING,
    ) -> None:
        """`lanes` above one: a real cluster, which lives on by itself and takes that many writes at once."""
        self.cluster = cluster
        self.plane = plane
        self.catalogue = catalogue
        self.pools = tuple(pools)
        self.clock = clock
        self.plane_away = False
        self._live = lanes > 1
        self._lanes = ThreadPoolExecutor(lanes, "agent-lane") if self._live else None
        self._told: dict[str, tuple[str, Hold]] = {}
        self._unsent: list[Decision] = []
        self._telling: tuple[Decision, ...] = ()
        self._told_s: Instant = 0.0
        self._packed = ("", "")
        self._memory = Memory()
        self._packing = packing
        self._tidy = Tidy(catalogue, packing=packing)
        self._views = Views()
        self._watch = SpotWatch(self.pools)
        self._spells: tuple[PoolSpells, ...] = ()
        self._survey = Survey(catalogue, self.pools, self._memory.rooms)
        self._ask_again_s: Instant = 0.0
        self._conflicted = False
        self._view: tuple[str, tuple[VNodePool, ...], tuple[DeviceView, ...]] = ("", (), ())
        self._sent: Report | None = None

    @property
    def pools_seen(self) -> tuple[VNodePool, ...]:
        """The pools as of the last cycle."""
        return self._view[1]

    def cycle(self) -> bool:
        """Answers whether anything was done here; the plane being away is not an error."""
        self.cluster.tend()
        observed = self.cluster.fetch_observed()
        changed = self._converge({one.uid: one for one in observed})
        state = self.cluster.fetch_state()
        kept, view = self._tidy.view(state)
        if (state.version, kept) != self._packed:
            decisions = pack(view, self.catalogue, self._memory, self._packing)
            if self._act(decisions):
                changed, state = True, self.cluster.fetch_state()
            # A cluster that lives on may have changed while we acted: what was packed is an older one.
            again = self._conflicted or (changed and self._live)
            self._packed = ("", "") if again else (state.version, kept)
        if self._make_tidy(state):
            changed, state = True, self.cluster.fetch_state()
        self._report(state, self.cluster.fetch_observed() if changed else observed)
        return changed

    def _converge(self, observed: dict[str, Observed]) -> bool:
        """Make the cluster's objects what the plane wants; leave all as it is when the plane does not answer."""
        try:
            desired = self.plane.fetch_desired(self.cluster.name)
        except Temporary:
            self.plane_away = True
            return False
        self.plane_away = False
        gone = sorted(observed.keys() - {one.uid for one in desired})
        new = sorted((one for one in desired if _differs(one, observed.get(one.uid))), key=lambda one: one.uid)
        done = [*self._each(self.cluster.delete, gone), *self._each(self._apply, new)]
        return bool(done)

    def _apply(self, wanted: Desired) -> None:
        """One that this cluster can never take must not keep the others from theirs; the plane's patience ends it."""
        try:
            self.cluster.apply(wanted)
        except (InvalidInput, NotAllowed, Conflict):
            return

    def _act(self, decisions: Sequence[Decision]) -> bool:
        """Resizes and evictions first, then gangs one by one: a conflict spoils one gang and is tried again."""
        self._conflicted = False
        evicts = [one for one in decisions if isinstance(one, Evict)]
        if evicts:
            self.cluster.evict(evicts)
        self._unsent.extend(evicts)
        acted = bool(evicts)
        gangs = _gangs(decisions)
        for group, bound in zip(gangs, self._each(self._bind, gangs), strict=True):
            self._conflicted |= not bound
            acted |= bound
            self._unsent.extend(group if bound else ())
            cleared = [one for one in group if isinstance(one, Bind) and one.evicts and not bound]
            if cleared and cleared[0].workload:
                # Those who make room are still there; what replaces them must not sit down in the meantime. A pod
                # that is no workload's cannot be told from others here.
                self._tidy.keep([one.node for one in cleared], cleared[0].workload, self.clock.now())
        holds = [one for one in decisions if isinstance(one, Hold)]
        for _ in self._each(self._explain, holds):
            pass
        return acted

    def _make_tidy(self, state: ClusterState) -> bool:
        evicts = self._tidy.step(state, self._memory, self._wish(state.now_s))
        if evicts:
            try:
                self.cluster.evict(evicts)
            except DureError as error:
                self._tidy.failed(str(error), state.now_s)
                raise
            self._unsent.extend(evicts)
        return bool(evicts)

    def _wish(self, now_s: Instant) -> DefragWish | None:
        """Asked for now and then; a plane that is away, or older than this agent, has none."""
        if self.plane_away or now_s < self._ask_again_s:
            return None
        self._ask_again_s = now_s + WISH_EVERY_S
        try:
            found = self.plane.fetch_wish(self.cluster.name)
        except (Temporary, NotFound, Permanent):
            return None
        self._tidy.keep_for(found.keeps if found is not None else (), now_s)
        return found if found is not None and found.id else None

    def _each(self, do: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
        return self._lanes.map(do, items) if self._lanes is not None else map(do, items)

    def _bind(self, group: Sequence[Bind | Resize]) -> bool:
        resizes = [one for one in group if isinstance(one, Resize)]
        binds = [one for one in group if isinstance(one, Bind)]
        try:
            if resizes:
                self.cluster.resize(resizes)
            self.cluster.bind(binds)
        except Conflict:
            return False
        return True

    def close(self) -> None:
        if self._lanes is not None:
            self._lanes.shutdown(wait=True, cancel_futures=True)

    def _explain(self, hold: Hold) -> None:
        message = "; ".join(f"{verdict.sentence} ({verdict.reason})" for verdict in hold.verdicts[:4])
        if self._told.get(hold.pod, ("", None))[0] == message:
            return
        self.cluster.explain(hold.pod, message)
        self._told[hold.pod] = (message, hold)
        self._unsent.append(hold)

    def _report(self, state: ClusterState, observed: tuple[Observed, ...]) -> None:
        """Tell the plane what is new; without news only now and then, so that it knows the agent lives."""
        if state.version != self._view[0]:
            pools = self._survey.pools(state, warm_models(state))
            self._unsent.extend(_resized(self._view[1], pools))
            self._view = (state.version, pools, self._views.devices(state))
            self._spells = self._watch.look(state)
        _, pools, devices = self._view
        at_s, answer = self.clock.now(), self._tidy.answer
        if not self._telling and self._unsent:
            # What is told stays as it is until somebody has heard it, so that it can be known again.
            self._telling, self._told_s = tuple(self._unsent), at_s
            self._unsent.clear()
        told = self._telling, answer, self._told_s if self._telling else 0.0
        report = Report(self.cluster.name, at_s, state.version, pools, observed, devices, *told, self._spells)
        if not self._news(report):
            return
        try:
            self.plane.write_report(report)
        except Temporary:
            self.plane_away = True
            return
        self._telling = ()
        self._sent = report
        waiting = {pod.name for pod in state.pods if not pod.node}
        self._told = {pod: told for pod, told in self._told.items() if pod in waiting}

    def _news(self, report: Report) -> bool:
        before = self._sent
        if before is None or report.at_s - before.at_s >= REPORT_EVERY_S or report.decisions:
            return True
        if report.defrag != before.defrag:
            return True
        return report.version != before.version or report.observed != before.observed


def _differs(wanted: Desired, seen: Observed | None) -> bool:
    return seen is None or seen.generation < wanted.placement.generation


def _resized(before: Sequence[VNodePool], after: Sequence[VNodePool]) -> list[ScaleNodes]:
    """Pools with more or fewer nodes than a moment ago, whoever booted or took them."""
    had = {pool.name: pool.nodes for pool in before}
    changes = [(pool, pool.nodes - had.get(pool.name, pool.nodes)) for pool in after]
    return [
        ScaleNodes(pool.cluster, pool.name, pool.nodes - more, pool.nodes, pool.capacity, _came(more))
        for pool, more in changes
        if more
    ]


def _came(more: int) -> str:
    return f"{abs(more)} {'node' if abs(more) == 1 else 'nodes'} {'came' if more > 0 else 'went'}"


def _gangs(decisions: Sequence[Decision]) -> list[list[Bind | Resize]]:
    """Binds that belong together, each with the resizes that stand before it."""
    gangs: dict[str, list[Bind | Resize]] = {}
    before: list[Resize] = []
    for decision in decisions:
        if isinstance(decision, Resize):
            before.append(decision)
        elif isinstance(decision, Bind):
            gangs.setdefault(decision.workload or decision.pod, []).extend([*before, decision])
            before = []
    return list(gangs.values())
