"""Services that share devices: who runs how many replicas, carried out as one plan after the other.

Called by the loop in every cycle, for the services of `groups` only; all others are left to `bursting`. What a
service needs follows from the requests that came since the last look and those that wait (`scale.needs`).
`scale.pools` divides, `scale.reallocation` leads there step by step. A group's plan is kept in the store with
everything else that the loop writes, so a new leader goes on with it; each step is a line of the journal and a piece
of news.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from dure.model.decision import JournalEntry, Reallocate, ScaleReplicas
from dure.model.elastic import ElasticGroup
from dure.model.event import Event, Level
from dure.model.report import Observed, Report
from dure.model.units import Instant, Seconds
from dure.model.workload import MEANT, Phase, Workload, WorkloadType
from dure.plane.adapting import Learned
from dure.plane.apply import Draft
from dure.plane.billing import billed
from dure.plane.observe import Observer
from dure.scale.needs import Counted, Need
from dure.scale.pools import PoolSettings, Service, shares
from dure.scale.reallocation import Held, Order, Plan, advance, planned

SETTING = "elastic-plan/"
# How long a round of calm is, after which a replica may be given back.
ROUND_S: Seconds = 60.0


class _Watch:
    """What one service needs, and since when that is less than it has."""

    def __init__(self, spec: Workload) -> None:
        self.need = Need(spec.rate_per_s * MEANT / spec.size)
        self.calm_s: Instant | None = None

    def look(self, replicas: int, counted: Counted | None, now_s: Instant) -> bool:
        """Whether there was something new to see."""
        if counted is None or not self.need.look(counted):
            return False
        if self.need.wanted >= replicas:
            self.calm_s = None
        elif self.calm_s is None:
            self.calm_s = now_s
        return True

    def rounds(self, now_s: Instant) -> int:
        return 0 if self.calm_s is None else int((now_s - self.calm_s) / ROUND_S)

    def gave_back(self) -> None:
        """The next one a round later."""
        if self.calm_s is not None:
            self.calm_s += ROUND_S


class Pooling:
    """`groups` is empty unless somebody has set it; then every cycle looks at them."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.groups: tuple[ElasticGroup, ...] = ()
        self._watched: dict[str, _Watch] = {}
        self._learned = Learned()

    def act(self, drafts: list[Draft], reports: Sequence[Report], now_s: Instant) -> list[Draft]:
        """Change the drafts whose service gives or gets; answers those that belong to no group."""
        self._learned = Learned()
        if not self.groups:
            return drafts
        by_name = {draft.before.name: draft for draft in drafts}
        seen = {one.uid: one for report in reports for one in report.observed}
        for group in self.groups:
            members = {name: by_name[name] for name in group.primary if name in by_name}
            if all(_runs(draft) for draft in members.values()) and len(members) == len(group.primary):
                self._tend(group, members, seen, reports, now_s)
        grouped = {name for group in self.groups for name in group.primary}
        return [draft for draft in drafts if draft.before.name not in grouped]

    def told(self, other: Learned) -> Learned:
        """What this cycle has to write beside the drafts, together with what somebody else has."""
        mine = self._learned
        return Learned(
            (*other.entries, *mine.entries),
            {**other.settings, **mine.settings},
            (*other.events, *mine.events),
            other.postings,
        )

    def _tend(
        self,
        group: ElasticGroup,
        members: dict[str, Draft],
        seen: dict[str, Observed],
        reports: Sequence[Report],
        now_s: Instant,
    ) -> None:
        looked = [self._look(draft, seen.get(draft.before.uid), now_s) for draft in members.values()]
        kept = self._observer.store.fetch_setting(SETTING + group.name)
        before = msgspec.json.decode(kept, type=Plan) if kept else None
        plan = before
        if plan is None or plan.over:
            plan = self._plan(group, members, now_s) if any(looked) else None
        if plan is None:
            return
        held = {name: _held(draft, seen.get(draft.before.uid)) for name, draft in members.items()}
        after, orders = advance(plan, held, now_s)
        self._obey(orders, members, reports, now_s, after)
        if after != before:
            self._tell(group, before, after, members, now_s)

    def _look(self, draft: Draft, seen: Observed | None, now_s: Instant) -> bool:
        watch = self._watched.setdefault(draft.before.uid, _Watch(draft.before.spec))
        return watch.look(_replicas(draft), _counted(seen, now_s), now_s)

    def _plan(self, group: ElasticGroup, members: dict[str, Draft], now_s: Instant) -> Plan | None:
        watched = {name: self._watched[draft.before.uid] for name, draft in members.items()}
        services = tuple(
            _service(draft, group.primary[name], watched[name], now_s) for name, draft in members.items()
        )
        found = shares(services, PoolSettings(group.elastic, group.give_back, group.calm))
        for share in found:
            if share.after < share.before:
                watched[share.service].gave_back()
        return planned(f"{group.name}-{now_s:.0f}", found, now_s)

    def _obey(
        self,
        orders: Iterable[Order],
        members: dict[str, Draft],
        reports: Sequence[Report],
        now_s: Instant,
        plan: Plan,
    ) -> None:
        """New replica counts; what ran so far is billed before. Drained replicas take no new requests anyway."""
        due = [
            (members[order.service], order.replicas)
            for order in orders
            if order.act == "scale" and _replicas(members[order.service]) != order.replicas
        ]
        if due:
            billed([draft for draft, _ in due], self._observer.snapshot(now_s, (), reports), every_s=0.0)
        for draft, replicas in due:
            home = draft.status.placement
            assert home is not None
            decision = ScaleReplicas(draft.before.name, home.replicas, replicas, f"{plan.name}: {plan.why}")
            generation = draft.status.generation + 1
            placement = replace(home, replicas=replicas, generation=generation)
            draft.status = replace(draft.status, placement=placement, generation=generation)
            draft.entries += (JournalEntry(0, now_s, "", decision, draft.before.spec.tenant, home.cluster),)

    def _tell(
        self, group: ElasticGroup, before: Plan | None, after: Plan, members: dict[str, Draft], now_s: Instant
    ) -> None:
        step = after.steps[after.at]
        home = members[step.service].status.placement
        decision = Reallocate(
            group.name, after.name, step.service, after.standing, step.number, step.phase, step.replicas, after.why
        )
        where = home.cluster if home is not None else ""
        tenant = members[step.service].before.spec.tenant
        entry = JournalEntry(0, now_s, "", decision, tenant, where)
        events = []
        begins = before is None or before.name != after.name
        if begins or before is None or before.standing != after.standing:
            level = Level.WARNING if after.standing in ("undoing", "undone") else Level.INFO
            message = f"{group.name}: {_SAID['begun' if begins else after.standing]}: {after.why}"
            events.append(Event(now_s, "Reallocated", message, level=level, tenant=tenant, workload=step.service,
                                cluster=where))  # fmt: skip
        kept = msgspec.json.encode(after).decode()
        mine = self._learned
        self._learned = Learned(
            (*mine.entries, entry), {**mine.settings, SETTING + group.name: kept}, (*mine.events, *events)
        )


_SAID = {
    "begun": "devices are given anew",
    "running": "devices are given anew",
    "done": "devices have changed hands",
    "undoing": "the change of hands fails and is undone",
    "undone": "everybody has what they had",
}


def _replicas(draft: Draft) -> int:
    home = draft.status.placement
    return home.replicas if home is not None else 0


def _runs(draft: Draft) -> bool:
    spec, status = draft.before.spec, draft.status
    running = status.phase is Phase.RUNNING and status.leaving_s is None and status.placement is not None
    return running and spec.type is WorkloadType.SERVING and spec.rate_per_s > 0


def _counted(seen: Observed | None, now_s: Instant) -> Counted | None:
    """Requests that came, those that wait among them; None where nobody counts."""
    if seen is not None and seen.pulse is not None:
        return Counted(seen.pulse.at_s, seen.pulse.asked, seen.pulse.waiting)
    if seen is None or seen.requests is None:
        return None
    waiting = seen.waiting or 0
    return Counted(now_s, seen.requests + waiting, waiting)


def _service(draft: Draft, primary: int, watch: _Watch, now_s: Instant) -> Service:
    """Without a look that said something it wants what it has."""
    spec, replicas, need = draft.before.spec, _replicas(draft), watch.need
    return Service(
        spec.name,
        primary,
        spec.replicas.min,
        spec.replicas.max,
        replicas,
        need.wanted if need.known else replicas,
        spec.priority,
        watch.rounds(now_s),
        need.replicas if need.known else None,
        need.error,
    )


def _held(draft: Draft, seen: Observed | None) -> Held:
    """What the agent last saw of it; what it has not heard of yet is neither ready nor gone."""
    replicas, generation = _replicas(draft), draft.status.generation
    if seen is None:
        return Held(replicas, 0, replicas)
    return Held(replicas, seen.ready if seen.generation == generation else 0, max(seen.pods, seen.bound))
