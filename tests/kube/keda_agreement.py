"""Dure's mirror of KEDA against the real KEDA, Prometheus and kube-controller-manager, tick by tick.

    python -m tests.kube.keda_agreement             up, an outage, down, and up again: about ten minutes
    python -m tests.kube.keda_agreement --short     up and an outage: a minute

The service and its ScaledObject are what `dure render` prints. One question of the autoscaler is one tick: the load
of the tick is shown, the question goes on to KEDA's adapter (which asks the operator, which asks Prometheus), and
KEDA's answer goes back at the next point of a time grid. Nothing about either side is guessed: the mirror is given
what Prometheus answered KEDA on its way through the lab's forwarder, and the moments at which the controller says
that it decided and remembered (`hpa_log`). Compared are KEDA's answer, what the autoscaler proposes for it, and the
replicas that come of it.

KEDA has a loop of its own which asks Prometheus too. Where it asked in the middle of a tick and was told something
else, it is not known which of the answers was the tick's: the mirror has to agree for one of them, and such ticks are
counted as unclear.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dure.model.quantity import milli
from dure.scale.hpa.observe import Total
from dure.scale.keda.engine import KedaSight, KedaState, tick
from dure.scale.keda.serve import Value, serve
from lab.cluster import CONTROLLER_MANAGER
from lab.errors import LabError
from lab.lab import Lab
from lab.metrics_api import MetricsApi, Question
from lab.progress import say
from lab.rest import Json
from tests.kube.hpa_log import Decision, HpaLog, remembered
from tests.kube.keda_world import LAB_FLAGS, NAMESPACE, KedaWorld, keda_world, of, rendered, scaled_of

# 15, 60 and 300 s lie a sixth of a step or more away from its multiples.
STEP_S = 1.7
# Down takes five minutes of calm before the first step and a minute between steps.
PATIENCE_S = 1800.0
Load = float | None


class Phase(msgspec.Struct, frozen=True):
    """A load for so many ticks, and on until the replicas have come where it leads, however fast ticks are."""

    load: Load
    ticks: int
    reach: int = 0


SHORT = (Phase(8, 2), Phase(47, 3, reach=10), Phase(None, 6), Phase(47, 2))
WHOLE = (*SHORT, Phase(45, 4), Phase(22, 3, reach=7), Phase(60, 3, reach=10), Phase(22, 5))


class Tick(msgspec.Struct, frozen=True):
    """What KEDA answered (thousandths, None for an error), what was proposed and what came of it; each twice."""

    number: int
    load: Load
    before: int
    answer: tuple[int | None, int | None]
    proposed: tuple[int | None, int | None]
    replicas: tuple[int, int]
    unclear: bool = False

    @property
    def agrees(self) -> bool:
        return all(real == mirror for real, mirror in (self.answer, self.proposed, self.replicas))


class Asked(msgspec.Struct, frozen=True):
    """One question: what was there, what KEDA answered and when that went back, and what KEDA may have been told."""

    sight: KedaSight
    answer: int | None
    told: tuple[Value, ...]


class Player:
    """Answers the autoscaler of one ScaledObject with what KEDA says, and keeps the mirror beside it."""

    def __init__(self, world: KedaWorld, manifest: Json, path: Sequence[Phase]) -> None:
        self.judged: list[Tick] = []
        self.done = threading.Event()
        self.error: BaseException | None = None
        self._world, self._path, self._since = world, list(path), 0
        self._query = manifest["spec"]["triggers"][0]["metadata"]["query"]
        self._scaled, self._state = scaled_of(manifest), KedaState()
        self._log = HpaLog(world.cluster.log(CONTROLLER_MANAGER))
        self._asked: Asked | None = None
        self._anchor_s = 0.0

    def answer(self, question: Question) -> list[Json] | None:
        try:
            return None if self.done.is_set() else self._tick(question)
        except BaseException as error:
            self.error = error
            self.done.set()
            raise

    def _tick(self, question: Question) -> list[Json] | None:
        spec, status, ready = self._world.deployment()
        if self._asked is not None:
            self._judge(self._asked, spec)
            self._go_on(spec)
        if not self._path:
            self.done.set()
            return None
        self._world.show(self._path[0].load, self._query)
        items, told = self._world.ask_keda_overheard(question.metric, question.selector)
        self._wait()
        self._asked = Asked(KedaSight(time.time(), spec, status, ready, ()), _value(items), told)
        return items

    def _judge(self, asked: Asked, replicas: int) -> None:
        """The mirror decides on what KEDA was told, at the moment the controller decided."""
        decided = self._log.fresh()
        if len(decided) != (asked.answer is not None):
            raise LabError(f"{len(decided)} decisions for one question that was answered with {asked.answer}")
        judged = [self._mirrored(asked, value, replicas, decided) for value in asked.told]
        tick, state = next((pair for pair in judged if pair[0].agrees), judged[0])
        self.judged.append(tick)
        self._state = state

    def _mirrored(
        self, asked: Asked, value: Value, replicas: int, decided: Sequence[Decision]
    ) -> tuple[Tick, KedaState]:
        real = decided[0] if decided else None
        now_s = real.begin_s if real else asked.sight.now_s
        sight = msgspec.structs.replace(asked.sight, now_s=now_s, values=(value,))
        step = tick(self._scaled, self._state, sight)
        served = serve(self._scaled, (value,), self._state.failures, sight.spec_replicas, sight.ready)
        [reading] = served.readings
        answer = reading.values[0] if isinstance(reading, Total) else None
        judged = Tick(
            len(self.judged),
            self._path[0].load,
            sight.spec_replicas,
            (asked.answer, answer),
            (real.proposed if real else None, _proposed(step.state, now_s) if answer is not None else None),
            (replicas, step.replicas),
            unclear=len(asked.told) > 1,
        )
        state = step.state
        if real is not None:
            state = msgspec.structs.replace(state, hpa=remembered(state.hpa, now_s, real.end_s))
        return judged, state

    def _go_on(self, replicas: int) -> None:
        """To the next phase when this one has lasted long enough and led where it should."""
        phase, self._since = self._path[0], self._since + 1
        if self._since >= phase.ticks and phase.reach in (0, replicas):
            del self._path[0]
            self._since = 0

    def _wait(self) -> None:
        """Until the next point of the grid; the first answer is its beginning."""
        if self._asked is None:
            self._anchor_s = time.monotonic()
            return
        gone_s = time.monotonic() - self._anchor_s
        slot = int(gone_s / STEP_S) + 1
        time.sleep(max(0.0, slot * STEP_S - gone_s))


def _proposed(state: KedaState, now_s: float) -> int | None:
    """What the mirror noted at that moment as the wish of the metrics."""
    return next((one.replicas for one in state.hpa.recommendations or () if one.at_s == now_s), None)


def play(world: KedaWorld, objects: list[Json], path: Sequence[Phase]) -> list[Tick]:
    """Start the service at its smallest number, then its ScaledObject, then answer until the path ends."""
    scaled = of("ScaledObject", objects)
    least = scaled["spec"]["minReplicaCount"]
    world.cluster.apply(*(one for one in objects if one is not scaled))
    name = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/chat"
    world.cluster.api.patch(name, {"spec": {"replicas": least}})
    world.cluster.api.until(name, lambda one: one["status"].get("readyReplicas") == least, what="the first pods")
    player = Player(world, scaled, path)
    with MetricsApi(world.cluster, player.answer):
        world.cluster.apply(scaled)
        deadline_s = time.monotonic() + PATIENCE_S
        while not player.done.wait(30.0):
            say(f"keda: {len(player.judged)} ticks, {world.deployment()[0]} replicas")
            if time.monotonic() > deadline_s:
                raise LabError(f"the path did not end: {summary(player.judged)}")
    if player.error is not None:
        raise player.error
    return player.judged


def summary(ticks: Sequence[Tick]) -> Json:
    """Counts, and the replicas both went through."""
    path = [ticks[0].before]
    for one in ticks:
        if one.replicas[0] != path[-1]:
            path.append(one.replicas[0])
    return {
        "ticks": len(ticks),
        "differing": sum(not one.agrees for one in ticks),
        "unclear": sum(one.unclear for one in ticks),
        "changes": len(path) - 1,
        "replicas": path,
        "fallbacks": sum(one.load is None and one.answer[0] is not None for one in ticks),
        "differences": [msgspec.to_builtins(one) for one in ticks if not one.agrees][:20],
    }


def _value(items: list[Json] | None) -> int | None:
    if items is None:
        return None
    [one] = items
    return milli(one["value"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare Dure's KEDA with the real one, tick by tick.")
    parser.add_argument("--short", action="store_true", help="only the beginning of the path, about a minute")
    options = parser.parse_args()
    with (
        Lab(["test"], flags={"test": LAB_FLAGS}) as lab,
        tempfile.TemporaryDirectory() as folder,
        keda_world(lab["test"], Path(folder)) as world,
    ):
        ticks = play(world, rendered(Path(folder)), SHORT if options.short else WHOLE)
    result = summary(ticks)
    print(json.dumps(result, indent=2))
    return 1 if result["differing"] else 0


if __name__ == "__main__":
    sys.exit(main())
