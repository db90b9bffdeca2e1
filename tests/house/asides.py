"""What standing aside is worth where bursts meet a full pool: the same days never, for the hurried, and always.

    python -m tests.house.asides --seeds 1 2 3 --modes hurried always
    python -m tests.house.asides --demo 4

Six days on sixteen devices (with `--rented` as many more at three times the price): long runs with days of slack, and
bursts of short ones under deadlines. Prints late jobs, mean wait and money of each. `--demo` plays days of the
demo instead.
"""

from __future__ import annotations

import argparse
import random

from msgspec.structs import replace

from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import arrivals, standing
from dure.cli.fleet_file import fleet_and_catalogue
from dure.embedded.summary import Summary
from dure.embedded.week import START_S, Run, Timed, simulate
from dure.files import read_text
from dure.files.builtin import catalogue
from dure.model.decision import Hold
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.units import DAY_S, HOUR_S, MICROS
from dure.model.workload import Phase, Workload, WorkloadRecord
from dure.place.settings import StandAside

HOURS = 6 * 24.0
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: hall}
spec:
  currency: KRW
  carbonPrice: 0/tCO2e
  clusters:
    - name: east
      region: kr-east
      grid: KR
      pue: 1.2
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 4, devices: 4, share: [exclusive], price: {owned: 1000/h}}
"""
RENTED = """\
        - name: rented
          class: a100-80gb-sxm
          nodes: 0
          nodesMax: 4
          devices: 4
          boot: 120s
          share: [exclusive]
          price: {onDemand: 3000/h}
"""
TENANTS = """\
  tenants: [{name: vision, weight: 1}]
"""


def job(name: str, hours: float, due_h: float, devices: int) -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: training
  classes: [a100-80gb-sxm]
  demand: {{devices: {devices}}}
  duration: {hours:.2f}h
  deadline: {due_h:.2f}h
  checkpoint: 20min
  interruptible: true
"""
    return read_text(text, name).workloads[0]


def stream(seed: int) -> list[Timed]:
    draw = random.Random(seed)
    coming: list[Timed] = []
    at_h = 0.0
    while at_h < HOURS:
        long = job(f"long-{len(coming)}", draw.uniform(12, 30), 72.0, draw.choice([2, 4]))
        coming.append((START_S + at_h * HOUR_S, long))
        at_h += draw.expovariate(1 / 5.5)
    at_h = draw.uniform(4, 10)
    while at_h < HOURS:
        for _ in range(draw.randint(4, 10)):
            soon_h = at_h + draw.uniform(0, 0.3)
            short = job(f"burst-{len(coming)}", draw.uniform(0.5, 2), draw.uniform(5, 8), draw.choice([1, 2]))
            coming.append((START_S + soon_h * HOUR_S, short))
        at_h += draw.uniform(8, 16)
    return coming


def due(record: WorkloadRecord) -> float:
    return record.status.submitted_s + (record.spec.deadline_s or 0.0)


def late(record: WorkloadRecord) -> bool:
    end_s = record.status.finished_s
    return record.status.phase is not Phase.FAILED and (end_s is None or end_s > due(record))


def row(seed: int, *, mode: str, rented: bool) -> str:
    fleet = read_text(FLEET + (RENTED if rented else "") + TENANTS, "hall").fleets[0]
    run = Run(fleet, catalogue(), stream(seed), days=HOURS / 24 + 3, seed=seed)
    found, store = played(run, mode)
    records = store.list_workloads()
    told = {kind: [one for one in records if one.name.startswith(kind)] for kind in ("burst", "long")}
    counts = ", ".join(f"{kind} {sum(map(late, ones))} of {len(ones)} late" for kind, ones in told.items())
    return f"{counts}; {told_of(found, store)}"


def demo_row(seed: int, *, mode: str, days: float) -> str:
    fleet, known = fleet_and_catalogue(None)
    coming = [(START_S, workload) for workload in standing(fleet, known)]
    coming += arrivals(fleet, known, seed, START_S, START_S + days * DAY_S)
    found, store = played(Run(fleet, known, coming, days=days, seed=seed), mode)
    met = 100 * (found.deadlines_met or 0.0)
    return f"{found.done} done, {met:.2f} % of deadlines met; {found.carbon_kg:,.0f} kg; {told_of(found, store)}"


def played(run: Run, mode: str) -> tuple[Summary, MemoryStore]:
    placing = [one for one in run.fleet.policies if one.verb is Verb.PLACE] or [Policy("ours", Verb.PLACE)]
    others = [one for one in run.fleet.policies if one.verb is not Verb.PLACE]
    asides = [replace(one, settings={**one.settings, "standAside": mode}) for one in placing]
    store = MemoryStore()
    return simulate(replace(run, fleet=replace(run.fleet, policies=(*others, *asides))), None, store), store


def told_of(found: Summary, store: MemoryStore) -> str:
    holds = [one.decision for one in store.list_journal(limit=1_000_000) if isinstance(one.decision, Hold)]
    names = [one.workload for one in holds if any(it.reason is Reason.STANDS_ASIDE for it in one.verdicts)]
    end_s = START_S + found.days * DAY_S
    harmed = sum(late(one) for one in store.list_workloads() if one.name in names and due(one) <= end_s)
    money, waited = found.cost_micros / MICROS, found.wait_mean_s / 60
    return f"wait {waited:.1f} min; {money:,.0f} KRW; {len(names)} stood aside, {harmed} of them late"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rented", action="store_true", help="as many devices more at three times the price")
    parser.add_argument("--demo", type=float, default=0.0, metavar="DAYS", help="of the demo instead")
    parser.add_argument("--modes", nargs="+", choices=[*StandAside], default=[*StandAside])
    given = parser.parse_args()
    for seed in given.seeds:
        for mode in given.modes:
            if given.demo:
                told = demo_row(seed, mode=mode, days=given.demo)
            else:
                told = row(seed, mode=mode, rented=given.rented)
            print(f"seed {seed} {mode:<7}: {told}", flush=True)


if __name__ == "__main__":
    main()
