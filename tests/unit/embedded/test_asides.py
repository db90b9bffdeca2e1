"""Those who run stand aside in the live loop: for a burst that would be late, at a checkpoint; all are in time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import Hold
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.units import HOUR_S
from dure.model.workload import Phase, Workload, WorkloadStatus
from tests.unit.embedded.test_world import Turner

HALL = """
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
        - {name: a100, class: a100-80gb-sxm, nodes: 1, devices: 4, share: [exclusive], price: {owned: 1000/h}}
  tenants: [{name: vision, weight: 1}, {name: search, weight: 1}]
"""


def job(name: str, hours: float, due_h: float, **spec: Any) -> Workload:
    text = f"""
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {{name: {name}, tenant: vision}}
spec:
  type: training
  classes: [a100-80gb-sxm]
  demand: {{devices: 4}}
  duration: {hours}h
  deadline: {due_h}h
  checkpoint: 20min
  interruptible: true
"""
    return replace(read_text(text, name).workloads[0], **spec)


def long(**spec: Any) -> Workload:
    return job("long", 12.0, 60.0, **spec)


def burst(**spec: Any) -> list[Workload]:
    return [job(f"short-{number}", 1.0, 6.0, **spec) for number in range(2)]


@pytest.fixture
def turner(known: Catalogue) -> Turner:
    return Turner(read_text(HALL, "hall").fleets[0], known)


def status(turner: Turner, name: str) -> WorkloadStatus:
    return turner.store.fetch_workload(name).status


def asides(turner: Turner, name: str = "long") -> list[Hold]:
    entries = turner.store.list_journal(workload=name, limit=1000)
    holds = [entry.decision for entry in entries if isinstance(entry.decision, Hold)]
    return [one for one in holds if one.verdicts[0].reason is Reason.STANDS_ASIDE]


def in_time(turner: Turner, name: str) -> bool:
    record = turner.store.fetch_workload(name)
    done, due_s = record.status.finished_s, record.spec.deadline_s
    assert due_s is not None
    return record.status.phase is Phase.DONE and done is not None and done <= record.status.submitted_s + due_s


def played(turner: Turner, first: Workload, then: list[Workload], hours: float = 40.0) -> Turner:
    """The burst comes ten minutes before an hour in which `first` has run for nearly two."""
    turner.world.submit([first])
    turner.run(1.8 * HOUR_S, step_s=60.0)
    assert status(turner, first.name).phase is Phase.RUNNING
    turner.world.submit(then)
    turner.run((hours - 1.8) * HOUR_S, step_s=60.0)
    return turner


def test_a_long_run_with_slack_stands_aside_for_a_burst_and_all_are_in_time(turner: Turner) -> None:
    played(turner, long(), burst())
    assert [in_time(turner, name) for name in ("short-0", "short-1", "long")] == [True, True, True]
    [aside] = asides(turner)
    assert "short-0" in aside.verdicts[0].detail
    assert "if it went on here" in aside.verdicts[0].found


def test_without_it_the_burst_is_late(turner: Turner) -> None:
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={"standAside": False}))
    played(turner, long(), burst())
    assert asides(turner) == []
    assert not in_time(turner, "short-0")


@pytest.mark.parametrize("key", ["movesAtOnce", "standAside"])
def test_a_policy_switches_it_off(turner: Turner, key: str) -> None:
    turner.store.write_policy(Policy("ours", Verb.PLACE, settings={key: 0 if key == "movesAtOnce" else False}))
    assert asides(played(turner, long(), burst(), hours=6.0)) == []
