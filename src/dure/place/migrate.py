"""Should a running workload move? Only when the saving on the work that is left passes a threshold.

The bill of going on where it is, against the cheapest home that has room, migration counted. Training moves only at a
checkpoint boundary, serving only with its replacement warm. Pure and tested; the cycle does not move anything yet.
"""

from __future__ import annotations

import msgspec

from dure.model.bill import Bill
from dure.model.decision import Hold, Move
from dure.model.money import show
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.units import Micros
from dure.model.workload import WorkloadRecord
from dure.place.bill import move_price
from dure.place.candidate import Candidate, Cycle
from dure.place.plan import placement_of


def move(snapshot: Snapshot, record: WorkloadRecord) -> Move | Hold:
    """The best move of one placed workload, or why it stays."""
    home = record.status.placement
    if home is None:
        where = record.name
        return Hold(record.name, (Verdict(where, Reason.MOVE_NOT_WORTH_IT, "a home to move from", "it has none"),))
    cycle = Cycle(snapshot, (record,), all_bills=True)
    here = f"{home.cluster}/{home.pool}"
    candidates = [one for one in cycle.candidates(record) if one.quote is not None]
    stay = next((one.bill(0) for one in candidates if one.where == here), None)
    others = [one for one in candidates if one.where != here and one.now_clash is None]
    if stay is None or not others:
        return Hold(record.name, (Verdict(here, Reason.MOVE_NOT_WORTH_IT, "another home", "none has room"),))
    priced = [(_with_move(cycle, record, one), one) for one in others]
    bill, best = min(priced, key=lambda pair: (pair[0].total, pair[0].carbon_g, pair[1].where))
    saving = stay.total - bill.total
    needed = round(cycle.settings.move_threshold * max(0, stay.total))
    if saving <= needed:
        found = f"{best.where} saves {show(saving)}"
        return Hold(record.name, (Verdict(here, Reason.MOVE_NOT_WORTH_IT, f"more than {show(needed)}", found),))
    return Move(record.name, placement_of(record, best, bill, snapshot), saving, _because(best, saving))


def _with_move(cycle: Cycle, record: WorkloadRecord, candidate: Candidate) -> Bill:
    load_s = cycle.snapshot.catalogue.load_s(record.spec.model)
    cost: Micros = move_price(record.spec, candidate.option, load_s, cycle.snapshot.rates)
    return msgspec.structs.replace(candidate.bill(0), migration=cost)


def _because(candidate: Candidate, saving: Micros) -> Verdict:
    return Verdict(candidate.where, None, detail=f"saves {show(saving)} with the move counted")
