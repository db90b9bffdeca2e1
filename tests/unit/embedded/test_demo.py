"""A scripted surge in virtual time: elastic share first, then idle replicas, then back in steps."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.demo import Script, Stage, surge_of, write
from dure.embedded.world import EmbeddedWorld
from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.decision import JournalEntry, Reallocate
from dure.model.fleet import Fleet

START_S = 1_767_571_200.0
STEP_S = 30.0
FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: shared}
spec:
  currency: KRW
  carbonPrice: 90000/tCO2e
  clusters:
    - name: seoul
      region: kr-seoul
      timezone: Asia/Seoul
      grid: KR
      pue: 1.3
      connect: {embedded: {}}
      pools:
        - {name: a10g, class: a10g, nodes: 3, devices: 4, share: [exclusive, mps], price: {owned: 500/h}}
  tenants:
    - {name: search, weight: 1}
"""


@pytest.fixture(scope="module")
def demo() -> Fleet:
    return read_text(FLEET, "shared").fleets[0]


class Play:
    """The script on a world of its own, watched step by step."""

    def __init__(self, world: Fleet, catalogue: Catalogue, state: Path, script: Script) -> None:
        self.clock, self.store = VirtualClock(START_S), MemoryStore()
        self.fleet, self.catalogue, self.state = world, catalogue, state
        self.seen: list[dict[str, int]] = []
        write(state, script)
        self.build()

    def build(self) -> None:
        self.world = EmbeddedWorld(self.fleet, self.catalogue, self.store, self.clock, seed=3)
        self.stage = Stage(self.state, self.world, self.fleet, self.catalogue)

    def crash(self) -> None:
        kept = {name: cluster.save() for name, cluster in self.world.clusters.items()}
        self.build()
        for name, data in kept.items():
            self.world.clusters[name].restore(data)

    def run(self, seconds: float, *, crash_every: int = 0) -> None:
        for step in range(int(seconds / STEP_S)):
            if crash_every and step % crash_every == crash_every - 1:
                self.crash()
            self.stage.turn(self.clock.now())
            for _ in range(4):
                if not self.world.step():
                    break
            self.seen.append(self.replicas())
            self.clock.advance(self.clock.now() + STEP_S)

    def replicas(self) -> dict[str, int]:
        records = {record.name: record.status.placement for record in self.store.list_workloads(ended=False)}
        return {name: home.replicas for name, home in records.items() if home is not None}

    def steps(self) -> list[Reallocate]:
        journal: tuple[JournalEntry, ...] = self.store.list_journal(limit=10_000)
        return [entry.decision for entry in journal if isinstance(entry.decision, Reallocate)]


def test_a_surge_takes_the_elastic_share_then_idle_replicas_and_gives_back(
    demo: Fleet, known: Catalogue, tmp_path: Path
) -> None:
    play = Play(demo, known, tmp_path, surge_of("model-a", "model-b", 5.6, 1800.0))
    play.run(5400.0)
    pairs = [(one["model-a"], one["model-b"]) for one in play.seen if len(one) == 2]
    assert max(b for _, b in pairs) > 4, "the other service grew beyond its own part first"
    top = max(a for a, _ in pairs)
    assert top == 7, "own part 3, elastic share 2, and 2 that the other held idle"
    assert min(b for _, b in pairs) == 2, "never below its minimum"
    assert max(a + b for a, b in pairs) <= 9, "devices are not invented"
    assert pairs[-1] == (3, 2), "all but its own part is given back, while it may need that again"
    falls = [before - after for (before, _), (after, _) in itertools.pairwise(pairs) if after < before]
    assert max(falls) == 1, "in steps"
    assert {step.phase for step in play.steps()} == {"drain", "move", "warm", "switch"}
    assert play.steps()[-1].standing == "done"


def test_a_crash_of_everything_in_between_loses_no_plan(demo: Fleet, known: Catalogue, tmp_path: Path) -> None:
    play = Play(demo, known, tmp_path, surge_of("model-a", "model-b", 5.6, 1800.0))
    play.run(3000.0, crash_every=7)
    play.run(2400.0)
    pairs = [(one["model-a"], one["model-b"]) for one in play.seen if len(one) == 2]
    assert max(a for a, _ in pairs) > 5, "more than its own part and the elastic share"
    assert min(b for _, b in pairs) == 2
    assert sum(pairs[-1]) <= 5, "given back"
    assert max(a + b for a, b in pairs) <= 9
