"""Answers to people: what would happen, why is it so. Read-only; the same brain that decides gives them."""

from __future__ import annotations

from dure.model.answer import Line, Option, Plan, Why, line
from dure.model.bill import Bill
from dure.model.decision import Hold, JournalEntry, Place
from dure.model.money import show
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.units import Instant
from dure.model.workload import Phase, Workload, WorkloadRecord, WorkloadStatus, WorkloadType
from dure.place import Offer, options_for
from dure.place.spans import expected_end
from dure.place.spot_rule import spot_ruling
from dure.plane.nearest import held_lines


def plan_of(workload: Workload, snapshot: Snapshot, currency: str) -> Plan:
    """Every option with its bill, as if the workload were submitted now and alone."""
    record = WorkloadRecord("plan", workload, WorkloadStatus(submitted_s=snapshot.now_s))
    offers = options_for(snapshot, record)
    answers = tuple(_option(offer, index == 0 and offer.clash is None) for index, offer in enumerate(offers))
    note = "" if any(answer.chosen for answer in answers) else "It would wait; nothing fits now."
    if (ruling := spot_ruling(snapshot, record)) is not None:
        note = f"By its deadline it {ruling.wish}: {ruling.sentence}."
    return Plan(workload.name, snapshot.now_s, answers, currency, note)


def _option(offer: Offer, chosen: bool) -> Option:
    pool = offer.option.pool
    possible = offer.clash is None
    return Option(
        cluster=pool.cluster,
        pool=pool.name,
        class_name=pool.class_name,
        capacity=pool.capacity,
        verdict=offer.clash or Verdict(offer.option.where),
        start_s=offer.option.start_s if possible else None,
        bill=offer.bill,
        total_micros=offer.bill.total,
        chosen=chosen,
    )


def why_of(record: WorkloadRecord, journal: tuple[JournalEntry, ...], snapshot: Snapshot, currency: str) -> Why:
    """What the record and the journal say, in words with numbers."""
    spec, status = record.spec, record.status
    since_s = _since(record, journal)
    start_s, note = _eta(record, snapshot)
    return Why(
        workload=record.name,
        tenant=spec.tenant,
        type=spec.type,
        phase=status.phase,
        since_s=since_s,
        now_s=snapshot.now_s,
        headline=f"{_kind(spec)}, tenant {spec.tenant}: {_state(status)} for {_span(snapshot.now_s - since_s)}",
        lines=_lines(record, journal, snapshot, currency),
        placement=status.placement,
        journal=journal,
        eta_s=start_s,
        eta_note=note,
    )


def _kind(spec: Workload) -> str:
    if spec.type is WorkloadType.SERVING:
        return f"serving, {spec.replicas.min} to {spec.replicas.max} replicas"
    return f"{spec.type}, gang of {spec.gang}" if spec.gang > 1 else str(spec.type)


def _state(status: WorkloadStatus) -> str:
    return "leaving its place" if status.leaving_s is not None else str(status.phase)


def _lines(
    record: WorkloadRecord, journal: tuple[JournalEntry, ...], snapshot: Snapshot, currency: str
) -> tuple[Line, ...]:
    status = record.status
    if status.leaving_s is not None:
        return tuple(line(verdict) for verdict in status.held)
    if status.phase.waits:
        return held_lines(record, snapshot)
    placed = next((one.decision for one in reversed(journal) if isinstance(one.decision, Place)), None)
    if placed is None or status.placement is None:
        return ()
    home = status.placement
    where = f"{home.cluster}/{home.pool}"
    chosen = Line(where, f"chosen: {_in_terms(home.bill, currency)}")
    waits = tuple(
        line(verdict)
        for entry in reversed(journal)
        if isinstance(entry.decision, Hold) and entry.decision.pod and status.phase is Phase.PLACED
        for verdict in entry.decision.verdicts
    )[:4]
    safe = safe_of(record, where, snapshot.now_s)
    return (chosen, *safe, *_by_rule(record, where, snapshot), *waits, *(line(verdict) for verdict in placed.others))


def _by_rule(record: WorkloadRecord, where: str, snapshot: Snapshot) -> tuple[Line, ...]:
    """Why one with a deadline is on spot or not, by the figures of now."""
    ruling = spot_ruling(snapshot, record)
    return () if ruling is None else (Line(where, f"{ruling.wish}: {ruling.sentence}"),)


def safe_of(record: WorkloadRecord, where: str, now_s: Instant) -> tuple[Line, ...]:
    """What is safe of the work, and how that is known: said by its pods, or counted by the clock."""
    spec, status = record.spec, record.status
    if status.phase is not Phase.RUNNING or spec.type is WorkloadType.SERVING or spec.checkpoint_s <= 0:
        return ()
    work = f"{_span(status.done_s)} of work safe"
    if status.saved_s is None:
        return (Line(where, f"{work}, counted by the clock: its pods do not show when they save"),)
    if not status.saved_s:
        return (Line(where, f"{work}, no checkpoint kept here yet by its own word"),)
    return (Line(where, f"{work}, checkpoint kept {_span(now_s - status.saved_s)} ago by its own word"),)


_TERMS = (
    ("price", "direct", 1), ("energy", "energy", 1), ("CO2 price", "carbon", 1), ("SLA risk", "sla", 1),
    ("spot rework", "rework", 1), ("move", "migration", 1), ("traffic", "traffic", 1),
    ("warm model", "warm_saved", -1), ("data there", "data_saved", -1),
)  # fmt: skip


def _in_terms(bill: Bill, currency: str) -> str:
    """The total and every term of it that is not nothing."""
    parts = [f"{name} {show(sign * getattr(bill, field))}" for name, field, sign in _TERMS if getattr(bill, field)]
    split = f" ({', '.join(parts)})" if parts else ""
    grams = "unknown" if bill.carbon_unknown else f"{bill.carbon_g / 1000:.1f} kg"
    return f"{show(bill.total, currency)} in all{split}, CO2 {grams}"


def _since(record: WorkloadRecord, journal: tuple[JournalEntry, ...]) -> Instant:
    """When the present state began, as well as the record and its journal know."""
    status = record.status
    if status.phase.ended:
        return status.finished_s or status.submitted_s
    if status.leaving_s is not None:
        return status.leaving_s
    if status.phase is Phase.RUNNING and status.started_s is not None:
        return status.started_s
    if status.placement is not None:
        return status.placement.decided_s
    first_hold: Instant | None = None
    for entry in reversed(journal):
        if not isinstance(entry.decision, Hold):
            break
        first_hold = entry.at_s
    return first_hold if first_hold is not None else status.submitted_s


def _eta(record: WorkloadRecord, snapshot: Snapshot) -> tuple[Instant | None, str]:
    """For a workload that waits for room: when the running one that ends first on a pool it could use should end."""
    if not record.status.phase.waits:
        return None, ""
    pools = {verdict.where for verdict in record.status.held if verdict.reason in _ROOM}
    ends = [
        (end, other)
        for other in snapshot.records
        if (home := other.status.placement) is not None
        and f"{home.cluster}/{home.pool}" in pools
        and (end := expected_end(other, 1.0, snapshot.now_s)) is not None
    ]
    if not ends:
        return None, ""
    end_s, first = min(ends, key=lambda pair: (pair[0], pair[1].name))
    home = first.status.placement
    named = first.name if first.spec.tenant == record.spec.tenant else "a workload of another tenant"
    return max(end_s, snapshot.now_s), f"when {named} ends on {home.cluster}" if home else ""


_ROOM = (Reason.NO_CAPACITY, Reason.FRAGMENTED, Reason.GANG_INCOMPLETE)


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
