"""Moves under way: planned now and then, begun at the right moment, finished or given up.

Called by the loop in every cycle; `place.moves` says what is worth it for one alone, `place.rearrange` who should
stand aside for those who wait. Training begins when a checkpoint has just been reported: it leaves, and goes on from
there in the new home, or later. A serving's next home warms up beside the present one, which goes only when all its
replicas are ready. Plans are kept in memory alone: a new leader plans anew. What is under way is in the records, so
the limits hold across restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from dure.model.decision import Hold, JournalEntry, Move
from dure.model.policy import Verb
from dure.model.reason import Reason
from dure.model.report import Observed, Report
from dure.model.snapshot import Snapshot, digest
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.units import HOUR_S, Instant, Micros, Seconds
from dure.model.workload import Phase, WorkloadStatus, WorkloadType
from dure.place.candidate import Cycle, may_wait
from dure.place.moves import best_move, changes, gives_up, movable, stand_of
from dure.place.rearrange import rearrangement, way_for
from dure.place.settings import PlaceSettings, StandAside, settings_of
from dure.place.spot import LOOK_S
from dure.plane.apply import Draft, stood_aside
from dure.plane.billing import billed
from dure.plane.fold import leave
from dure.plane.observe import Observer

# A price or a grid that changes by more than this within an hour is a reason to look at once; a market may tremble.
JUMP = 0.05
# The next home of a serving has this long, beyond the boot of its node, to be ready.
WARM_S: Seconds = 1800.0
# A saving that has shrunk below this part of the threshold when the checkpoint comes is let go.
KEEP = 0.5
# So many times as many as may begin at once are asked in an hour whether they stand aside.
ASKED = 2
_ASKS = {"movesAtOnce", "moves_at_once"}


class Moving:
    """`act` is called once in every cycle, after reports were folded and decisions made."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._plans: dict[str, Move | Hold] = {}
        self._asides: frozenset[str] = frozenset()
        self._begun: list[Instant] = []
        self._looked_s: Instant | None = None
        self._tariffs: tuple[Tariff, ...] = ()
        self._grids: tuple[CarbonSeries, ...] = ()
        self._hour = -1

    def act(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        seen = {report.cluster: report for report in reports}
        for draft in drafts:
            if draft.status.incoming is not None:
                self._follow(draft, seen, now_s)
        jumped = self._jumped(now_s)
        due = self._looked_s is None or now_s - self._looked_s >= LOOK_S
        come = [draft for draft in drafts if _has_come(draft)]
        if not (due or jumped or self._plans or self._asides or come):
            return
        running = [draft for draft in drafts if movable(draft.record)]
        settings = _settings(self._observer)
        if not running or settings is None or settings.moves_at_once <= 0:
            self._plans.clear()
            self._asides = frozenset()
            return
        rule_only = not self._asked()
        if come and settings.stand_aside is StandAside.ALWAYS and not rule_only:
            self._ask_for(come, drafts, reports, settings, now_s)
        if due or jumped:
            self._plan(running, drafts, reports, settings, now_s, jumped=jumped, rule_only=rule_only)
        self._begin(running, drafts, reports, settings, now_s, rule_only=rule_only)

    def _plan(
        self, running: Sequence[Draft], drafts: Sequence[Draft], reports: Sequence[Report], settings: PlaceSettings,
        now_s: Instant, *, jumped: bool, rule_only: bool,
    ) -> None:  # fmt: skip
        """What is worth it now; an earlier plan that waits for its checkpoint stands until then."""
        same_hour = self._looked_s is not None and now_s // HOUR_S == self._looked_s // HOUR_S
        self._looked_s = now_s
        names = {draft.before.name for draft in running}
        self._plans = {name: move for name, move in self._plans.items() if name in names}
        self._asides &= names
        room = self._room(drafts, settings, now_s)
        if room > 0:
            snapshot = self._observer.snapshot(now_s, [draft.record for draft in drafts], reports)
            quiet = rule_only or (same_hour and not jumped)
            found = changes(snapshot, room - len(self._plans), frozenset(self._plans), rule_only=quiet)
            self._plans |= {move.workload: move for move in found}
            if settings.stand_aside is not StandAside.NEVER and not quiet:
                # One under way makes room for the next before the hour is over.
                asides = rearrangement(snapshot, ASKED * room, frozenset(self._plans))
                self._asides = frozenset(one.workload for one in asides)

    def _ask_for(
        self, come: Sequence[Draft], drafts: Sequence[Draft], reports: Sequence[Report], settings: PlaceSettings,
        now_s: Instant,
    ) -> None:  # fmt: skip
        """Those who were given a home in this turn: where somebody should rather make room for them, they wait for
        that instead. Nothing of the home was written yet, so it is as if it had not been given."""
        room = self._room(drafts, settings, now_s)
        if room <= 0:
            return
        new = {draft.before.name: home for draft in come if (home := draft.status.placement) is not None}
        records = [draft.before if draft.before.name in new else draft.record for draft in drafts]
        snapshot = self._observer.snapshot(now_s, records, reports)
        way = way_for(snapshot, ASKED * room, frozenset(self._plans), new)
        self._asides |= frozenset(one.workload for one in way.leaving)
        guests = {draft.before.name: draft for draft in come}
        for hold in way.guests:
            draft = guests[hold.workload]
            draft.status = replace(
                draft.before.status, phase=Phase.HELD, held=hold.verdicts, look_again_s=hold.until_s
            )
            draft.entries = (JournalEntry(0, now_s, digest(snapshot), hold, draft.before.spec.tenant),)

    def _jumped(self, now_s: Instant) -> bool:
        """Whether a price or a grid is another than it was in this very hour; a new hour waits for the next look."""
        tariffs, grids = self._observer.prices.fetch_tariffs(now_s), self._observer.carbon_around(now_s)
        hour = int(now_s // HOUR_S)
        if hour == self._hour:
            pairs = zip(self._tariffs, tariffs, strict=False) if tariffs != self._tariffs else ()
            changes: list[tuple[float, float]] = [change for one in pairs for change in _prices(*one, now_s)]
            if grids is not self._grids:
                changes += _intensities(self._grids, grids, now_s)
            if not any(abs(new - old) > JUMP * old for old, new in changes):
                return False
        jumped = hour == self._hour
        self._tariffs, self._grids, self._hour = tariffs, grids, hour
        return jumped

    def _begin(
        self, running: Sequence[Draft], drafts: Sequence[Draft], reports: Sequence[Report], settings: PlaceSettings,
        now_s: Instant, *, rule_only: bool,
    ) -> None:  # fmt: skip
        ready = [draft for draft in running if draft.before.name in self._plans and self._may_begin(draft)]
        asked = [draft for draft in running if draft.before.name in self._asides and _at_checkpoint(draft)]
        if not ready and not asked:
            return
        snapshot = self._observer.snapshot(now_s, [draft.record for draft in drafts], reports)
        if asked:
            self._stand_aside(asked, snapshot, self._room(drafts, settings, now_s))
        cycle = Cycle(snapshot, (), all_bills=True)
        for draft in ready:
            plan = self._plans.pop(draft.before.name)
            if self._room(drafts, settings, now_s) <= 0:
                return
            # Validated anew: the world has moved on since it was planned.
            if isinstance(plan, Hold):
                again = gives_up(draft.record, stand_of(cycle, draft.record))
                if again is not None:
                    billed([draft], snapshot, every_s=0.0)
                    _pause(draft, again, "waits for spot", digest(snapshot), now_s)
                    self._begun.append(now_s)
                continue
            stand = stand_of(cycle, draft.record)
            found = best_move(cycle, draft.record, KEEP, stand=stand, rule_only=rule_only)
            if found is not None:
                move, candidate = found
                cycle.take(draft.record, candidate, move.placement.bill)
                billed([draft], snapshot, every_s=0.0)
                _start(draft, move, digest(snapshot), now_s)
                self._begun.append(now_s)

    def _stand_aside(self, asked: Sequence[Draft], snapshot: Snapshot, room: int) -> None:
        """Validated anew, all of them together: who waits may have got what they would leave for it."""
        drafts = {draft.before.name: draft for draft in asked}
        self._asides -= drafts.keys()
        for again in rearrangement(snapshot, len(drafts), among=frozenset(drafts), part=KEEP)[: max(0, room)]:
            draft = drafts[again.workload]
            billed([draft], snapshot, every_s=0.0)
            if isinstance(again, Hold):
                _pause(draft, again, "stands aside", digest(snapshot), snapshot.now_s)
            else:
                _start(draft, again, digest(snapshot), snapshot.now_s)
            self._begun.append(snapshot.now_s)

    def _asked(self) -> bool:
        """Behind real clusters stand real users: there nobody moves for a saving unless the policy asks for moves by
        name. Who is on spot with a deadline leaves it in time all the same."""
        placing = next((one for one in self._observer.store.list_policies() if one.verb is Verb.PLACE), None)
        if placing is not None and _ASKS & placing.settings.keys():
            return True
        return all(spec.connect.embedded for spec in self._observer.fleet.clusters)

    def _may_begin(self, draft: Draft) -> bool:
        """Serving at any time; training when a checkpoint has just come in, or when a deadline cannot wait for it."""
        if draft.before.spec.type is WorkloadType.SERVING:
            return True
        plan = self._plans[draft.before.name]
        return _at_checkpoint(draft) or (isinstance(plan, Move) and plan.reason.reason is Reason.DEADLINE_AT_RISK)

    def _room(self, drafts: Iterable[Draft], settings: PlaceSettings, now_s: Instant) -> int:
        """How many may begin now: the rest of those at once and of those in any hour."""
        self._begun = [at_s for at_s in self._begun if now_s - at_s < HOUR_S]
        under_way = sum(_under_way(draft.status) for draft in drafts)
        recent = sum(draft.status.moved_s is not None and now_s - draft.status.moved_s < HOUR_S for draft in drafts)
        lately = max(recent, len(self._begun))
        return min(settings.moves_at_once - under_way, settings.moves_per_hour - lately)

    def _follow(self, draft: Draft, seen: dict[str, Report], now_s: Instant) -> None:
        """Switch to a home that is warm; give one up that does not get warm."""
        status, incoming = draft.status, draft.status.incoming
        assert incoming is not None
        report = seen.get(incoming.cluster)
        there = _observed(report, draft.before.uid, incoming.generation)
        if status.phase is not Phase.RUNNING or status.leaving_s is not None:
            draft.status = replace(status, incoming=None)
            return
        if there is not None and there.ready >= incoming.replicas:
            billed([draft], self._observer.snapshot(now_s, (), tuple(seen.values())), every_s=0.0)
            _switch(draft, there)
        elif now_s > max(incoming.start_s, incoming.decided_s) + WARM_S:
            draft.status = replace(status, incoming=None, message="its next home did not get warm")


def _prices(before: Tariff, after: Tariff, now_s: Instant) -> Iterator[tuple[Micros, Micros]]:
    """What the same pool cost then and costs now, for each way to pay for it."""
    for capacity in after.capacities:
        then, now = before.per_hour(capacity), after.per_hour(capacity)
        if then is not None and now is not None:
            yield then.at(now_s), now.at(now_s)


def _intensities(
    before: Sequence[CarbonSeries], after: Sequence[CarbonSeries], now_s: Instant
) -> Iterator[tuple[float, float]]:
    """g/kWh of the same grid in this hour, as told then and now; unknown is no change."""
    known = {series.grid: series.at(now_s) for series in before}
    for series in after:
        then, now = known.get(series.grid), series.at(now_s)
        if then is not None and now is not None:
            yield then, now


def _settings(observer: Observer) -> PlaceSettings | None:
    """Those of the placement policy; nothing while it is paused."""
    placing = next((one for one in observer.store.list_policies() if one.verb is Verb.PLACE), None)
    if placing is None:
        return PlaceSettings()
    return None if placing.paused else settings_of(placing)


def _observed(report: Report | None, uid: str, generation: int) -> Observed | None:
    if report is None:
        return None
    return next((one for one in report.observed if one.uid == uid and one.generation == generation), None)


def _start(draft: Draft, move: Move, seen: str, now_s: Instant) -> None:
    """A serving gets a second home beside the first; anything else leaves for the new one."""
    home = move.placement
    draft.entries += (JournalEntry(0, now_s, seen, move, draft.before.spec.tenant, home.cluster),)
    if draft.before.spec.type is WorkloadType.SERVING:
        present = draft.status.placement
        assert present is not None
        # As many as it has now, burst replicas included: the switch must not make it smaller.
        warm = replace(home, replicas=max(home.replicas, present.replicas))
        draft.status = replace(draft.status, incoming=warm, generation=home.generation, moved_s=now_s)
        return
    left = leave(draft.status, now_s, f"moves to {move.reason.where}: {move.reason.detail}", move.reason.reason)
    draft.status = replace(left, moving_to=move.reason.where, moved_s=now_s)


def _pause(draft: Draft, hold: Hold, why: str, seen: str, now_s: Instant) -> None:
    """It leaves its home and waits: for spot, or for a later hour that it has planned."""
    home, [verdict] = draft.status.placement, hold.verdicts
    cluster = home.cluster if home is not None else ""
    draft.entries += (JournalEntry(0, now_s, seen, hold, draft.before.spec.tenant, cluster),)
    left = leave(draft.status, now_s, f"{why}: {verdict.sentence}", verdict.reason)
    if hold.until_s is not None:
        left = replace(left, held=hold.verdicts, look_again_s=hold.until_s)
    draft.status = replace(left, moved_s=now_s)


def _has_come(draft: Draft) -> bool:
    """Whether it has waited for its first home until this turn, and may wait for another; but not twice."""
    before, status = draft.before.status, draft.status
    if status is before or not before.phase.waits or status.phase is not Phase.PLACED or not may_wait(draft.before):
        return False
    slept = any(verdict.reason is Reason.WAITING_FOR_CHEAPER_HOUR for verdict in before.held)
    return before.generation == 0 and not slept


def _at_checkpoint(draft: Draft) -> bool:
    """Whether a checkpoint has just been reported."""
    return draft.status.done_s > draft.before.status.done_s


def _under_way(status: WorkloadStatus) -> bool:
    leaves = status.leaving_s is not None and stood_aside(status)
    return status.incoming is not None or bool(status.moving_to) or leaves


def _switch(draft: Draft, there: Observed) -> None:
    """The new home serves alone from now on and is paid since it was wanted; what both counted counts once."""
    status = draft.status
    assert status.incoming is not None
    draft.status = replace(
        status,
        placement=status.incoming,
        incoming=None,
        ready=there.ready,
        billed_until_s=status.incoming.decided_s,
        requests_before=_less(status.requests, there.requests),
        requests_good_before=_less(status.requests_good, there.requests_good),
    )


def _less(total: int | None, counted: int | None) -> int | None:
    return None if total is None else max(0, total - (counted or 0))
