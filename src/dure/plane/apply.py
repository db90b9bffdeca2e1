"""From decisions to changes of records: what was decided, why, and what people are told about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from dure.model.decision import Decision, Hold, JournalEntry, Place, Reclaim
from dure.model.event import Event, Level
from dure.model.money import show
from dure.model.reason import Reason, Verdict
from dure.model.report import Observed, Report
from dure.model.units import Instant, Seconds
from dure.model.workload import Phase, WorkloadRecord, WorkloadStatus
from dure.place.bill import charged
from dure.plane.fold import fold, leave
from dure.ports import Change, Charge

# Running workloads are billed at least this often.
BILL_EVERY_S = 1800.0
_NOBODY: dict[str, Observed] = {}


class Draft:
    """One record on its way to its next status, with what has to be written beside it."""

    __slots__ = ("before", "charges", "entries", "status")

    def __init__(self, record: WorkloadRecord) -> None:
        self.before = record
        self.status = record.status
        # Nearly all have none, and there is a draft of every open workload in every turn.
        self.entries: tuple[JournalEntry, ...] = ()
        self.charges: tuple[Charge, ...] = ()

    @property
    def record(self) -> WorkloadRecord:
        if self.status is self.before.status:
            return self.before
        return msgspec.structs.replace(self.before, status=self.status)

    @property
    def touched(self) -> bool:
        """Whether anybody wrote to it, if only what was there already; all that is charged is."""
        return self.status is not self.before.status

    @property
    def changed(self) -> bool:
        return self.status is not self.before.status and self.status != self.before.status

    def rests(self, now_s: Instant) -> bool:
        """Nothing to decide: it has ended, or it waits for a better hour that has not come."""
        again_s, phase = self.status.look_again_s, self.status.phase
        return (again_s is not None and again_s > now_s and phase.waits) or phase.ended

    def due(self, now_s: Instant, every_s: Seconds = BILL_EVERY_S) -> bool:
        """Whether it has to be billed: now and then while it runs, and when it leaves or ends."""
        status, before = self.status, self.before.status
        if status.placement is None or not _holds(before):
            return False
        if now_s - status.billed_until_s >= every_s:
            return True
        return status is not before and (status.phase.ended or status.leaving_s != before.leaving_s)

    def homes_to_tell(self) -> set[str]:
        """The clusters on which something must now appear or go away."""
        old, new = self.before.status, self.status
        ended = new.phase.ended and not old.phase.ended
        if new.generation == old.generation and new.leaving_s == old.leaving_s and not ended:
            return set()
        homes = (old.placement, new.placement, old.incoming, new.incoming)
        return {home.cluster for home in homes if home is not None}

    def change(self, now_s: Instant, currency: str) -> Change:
        events = _events(self.before, self.status, now_s, currency)
        return Change(self.before.uid, self.before.version, self.status, self.entries, events, self.charges)


class Folding:
    """Lets every draft take in what its cluster last reported, turn after turn.

    Nearly all run on as they were seen: while a record and what is observed of it are the very same objects as when
    nothing came of it, nothing will. Only of a running one, as patience with others ends by the clock.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Sequence[Observed], dict[str, Observed]]] = {}
        self._quiet: dict[str, tuple[WorkloadRecord, Observed]] = {}

    def fold(self, drafts: Sequence[Draft], reports: Sequence[Report], now_s: Instant) -> None:
        by_cluster = {report.cluster: report for report in reports}
        seen = {report.cluster: self._by_uid(report) for report in reports}
        quiet, self._quiet = self._quiet, {}
        given: set[str] = set()
        for draft in drafts:
            record, home = draft.before, draft.status.placement
            if home is None:
                continue
            here = seen.get(home.cluster, _NOBODY).get(record.uid)
            known = quiet.get(record.uid)
            if known is None or known[0] is not record or known[1] is not here:
                draft.status = fold(record, by_cluster.get(home.cluster), here, now_s)
                if draft.status.placement is None and stood_aside(draft.status):
                    given.add(home.class_name)
                if here is None or draft.status is not record.status or draft.status.phase is not Phase.RUNNING:
                    continue
                known = record, here
            self._quiet[record.uid] = known
        if given:
            _wake(drafts, given)

    def _by_uid(self, report: Report) -> dict[str, Observed]:
        known = self._seen.get(report.cluster)
        if known is None or known[0] is not report.observed:
            known = self._seen[report.cluster] = report.observed, {one.uid: one for one in report.observed}
        return known[1]


def stood_aside(status: WorkloadStatus) -> bool:
    """Whether it is on its way out for others, or waits since then and has not been looked at again."""
    return any(verdict.reason is Reason.STANDS_ASIDE for verdict in status.held)


def _wake(drafts: Iterable[Draft], given: set[str]) -> None:
    """Room of these classes was left to those who wait: also who sleeps until a better hour is asked now."""
    for draft in drafts:
        status = draft.status
        if status.look_again_s is None or not status.phase.waits or stood_aside(status):
            continue
        if any(accepted.name in given for accepted in draft.before.spec.classes):
            draft.status = msgspec.structs.replace(status, look_again_s=None)


def decided(drafts: list[Draft], decisions: Iterable[Decision], digest: Callable[[], str], now_s: Instant) -> None:
    """Write each decision into its draft; a Hold for the same reasons as before changes nothing.

    `digest` names the world that was decided on; it is asked for once, and only where there is something to journal.
    """
    by_name = {draft.before.name: draft for draft in drafts}
    world = ""
    for decision in decisions:
        draft = by_name[decision.workload] if isinstance(decision, (Place, Hold, Reclaim)) else None
        if draft is None:
            continue
        status = _next(draft.status, decision, now_s)
        if status is draft.status or status == draft.status:
            continue
        again_only = msgspec.structs.replace(status, look_again_s=draft.status.look_again_s) == draft.status
        draft.status = status
        if again_only:
            continue
        tenant = draft.before.spec.tenant
        world = world or digest()
        draft.entries += (JournalEntry(0, now_s, world, decision, tenant, _cluster(decision)),)


def _next(status: WorkloadStatus, decision: Decision, now_s: Instant) -> WorkloadStatus:
    if isinstance(decision, Place):
        placement = decision.placement
        return msgspec.structs.replace(
            status,
            phase=Phase.PLACED,
            placement=placement,
            generation=placement.generation,
            held=(),
            look_again_s=None,
            billed_until_s=now_s,
            requests_before=status.requests,
            requests_good_before=status.requests_good,
            message="",
            moving_to="",
        )
    if isinstance(decision, Reclaim):
        return leave(status, now_s, decision.reason.detail, decision.reason.reason)
    if not isinstance(decision, Hold):
        return status
    same = _alike(decision.verdicts, status.held)
    if same and status.phase is Phase.HELD and status.look_again_s == decision.until_s:
        return status
    held = status.held if same else decision.verdicts
    return msgspec.structs.replace(status, phase=Phase.HELD, held=held, look_again_s=decision.until_s)


def _alike(new: tuple[Verdict, ...], old: tuple[Verdict, ...]) -> bool:
    """The same reasons at the same places; mostly in the same order too, which is quickly seen."""
    if len(new) == len(old) and all(
        one.where == other.where and one.reason == other.reason for one, other in zip(new, old, strict=True)
    ):
        return True
    return _codes(new) == _codes(old)


def _codes(verdicts: tuple[Verdict, ...]) -> set[tuple[str, str]]:
    return {(verdict.where, verdict.reason or "") for verdict in verdicts}


def _cluster(decision: Decision) -> str:
    return decision.placement.cluster if isinstance(decision, Place) else ""


def _holds(status: WorkloadStatus) -> bool:
    return status.phase is Phase.RUNNING or status.phase is Phase.STARTING


def _resized(old: WorkloadStatus, new: WorkloadStatus) -> bool:
    """Whether only the number of replicas is another."""
    before, after = old.placement, new.placement
    if before is None or after is None or before.replicas == after.replicas:
        return False
    same = {"generation": before.generation, "replicas": before.replicas, "decided_s": before.decided_s}
    return msgspec.structs.replace(after, **same) == before


def _events(before: WorkloadRecord, status: WorkloadStatus, now_s: Instant, currency: str) -> tuple[Event, ...]:
    """What a person would want to hear of this change; nothing for mere progress."""
    old, name = before.status, before.name
    home = status.placement or old.placement
    where = f"{home.cluster}/{home.pool}" if home else ""
    told: list[tuple[str, str, Level]] = []
    if _resized(old, status) and old.placement and status.placement:
        counts = f"{status.placement.replicas} replicas instead of {old.placement.replicas}"
        told.append(("Scaled", f"{name} gets {counts} in {where}", Level.INFO))
    elif status.incoming is not None and old.incoming is None:
        told.append(("Moving", f"{name} warms up in {status.incoming.cluster}/{status.incoming.pool}", Level.INFO))
    elif old.incoming is not None and status.placement == old.incoming:
        told.append(("Moved", f"{name} is served from {where} now", Level.INFO))
    elif status.generation != old.generation and status.placement:
        price = show(charged(status.placement.bill), currency)
        told.append(("Placed", f"{name} goes to {where}, expected at {price}", Level.INFO))
    if status.leaving_s is not None and old.leaving_s is None:
        told.append(("Leaving", f"{name} leaves {where}: {status.message}", Level.WARNING))
    if status.phase is not old.phase:
        told.extend(_phase_told(before, status, where, currency))
    return tuple(
        Event(now_s, kind, message, level=level, tenant=before.spec.tenant, workload=name,
              cluster=home.cluster if home else "")
        for kind, message, level in told
    )  # fmt: skip


def _phase_told(
    before: WorkloadRecord, status: WorkloadStatus, where: str, currency: str
) -> list[tuple[str, str, Level]]:
    name = before.name
    match status.phase:
        case Phase.HELD:
            first = status.held[0].sentence if status.held else "no pool to look at"
            return [("Held", f"{name} waits: {first}", Level.INFO)]
        case Phase.RUNNING:
            return [("Running", f"{name} runs on {where}", Level.INFO)]
        case Phase.DONE:
            return [("Done", f"{name} is done; it cost {show(status.spent_micros, currency)}", Level.INFO)]
        case Phase.FAILED:
            return [("Failed", f"{name} failed on {where}: {status.message or 'no message'}", Level.WARNING)]
        case _:
            return []
