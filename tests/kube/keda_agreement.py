"""Dure's mirror of KEDA against the real KEDA, Prometheus and kube-controller-manager, tick by tick.

    python -m tests.kube.keda_agreement             up, an outage, down, and up again: about ten minutes
    python -m tests.kube.keda_agreement --short     up and an outage: a minute

The service and its ScaledObject are what `dure render` prints. One question of the autoscaler is one tick: the load
of the tick is shown, the question goes on to KEDA's adapter (which asks the operator, which asks Prometheus), and
KEDA's answer goes back at the next point of a time grid, whose multiples are not near any window or period of the
rendered behaviour. Compared are KEDA's answer with the mirror's, and the replicas found at the next question.

On a busy machine two moments are known only by their bounds: when the controller decides (between our answer and
its next question), and for which second KEDA asked Prometheus (one of those that passed meanwhile). The mirror has to
agree for the first of these moments or for the last; ticks that need the last are counted as late.
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
from dure.scale.keda.serve import Failed, Value, query_value, serve
from lab.errors import LabError
from lab.lab import Lab
from lab.metrics_api import MetricsApi, Question
from lab.progress import say
from lab.rest import Json
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
    """What KEDA answered (thousandths, None for an error) and what the autoscaler made of it; both twice."""

    number: int
    load: Load
    before: int
    answer: tuple[int | None, int | None]
    replicas: tuple[int, int]
    late: bool = False

    @property
    def agrees(self) -> bool:
        return self.answer[0] == self.answer[1] and self.replicas[0] == self.replicas[1]


class Player:
    """Answers the autoscaler of one ScaledObject with what KEDA says, and keeps the mirror beside it."""

    def __init__(self, world: KedaWorld, manifest: Json, path: Sequence[Phase]) -> None:
        self.judged: list[Tick] = []
        self.done = threading.Event()
        self.error: BaseException | None = None
        self._world, self._path, self._since = world, list(path), 0
        self._query = manifest["spec"]["triggers"][0]["metadata"]["query"]
        self._scaled, self._state = scaled_of(manifest), KedaState()
        self._before = 0
        self._answers: tuple[int | None, int | None] = (None, None)
        self._sight: KedaSight | None = None
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
        if self._sight is not None:
            self._judge(self._sight, spec, time.monotonic() - self._anchor_s)
            self._go_on(spec)
        if not self._path:
            self.done.set()
            return None
        value = self._world.show(self._path[0].load, self._query)
        asked_s = int(time.time())
        items = self._world.ask_keda(question.metric, question.selector)
        value = self._shown(value, _value(items), range(asked_s, int(time.time()) + 1))
        sight = KedaSight(self._wait(), spec, status, ready, (value,))
        self._answers = (_value(items), self._mirrored(value, sight))
        self._before, self._sight = spec, sight
        return items

    def _judge(self, sight: KedaSight, replicas: int, now_s: float) -> None:
        """The controller has decided at some moment since the last answer."""
        step, late = tick(self._scaled, self._state, sight), False
        if step.replicas != replicas:
            last = tick(self._scaled, self._state, msgspec.structs.replace(sight, now_s=now_s))
            step, late = (last, True) if last.replicas == replicas else (step, False)
        self._state = step.state
        after = (replicas, step.replicas)
        self.judged.append(Tick(len(self.judged), self._path[0].load, self._before, self._answers, after, late))

    def _shown(self, value: Value, answer: int | None, seconds: range) -> Value:
        """What Prometheus said in the second that KEDA asked for; a lost scrape may have changed it meanwhile."""
        if isinstance(value, Failed) or answer is None:
            return value
        found = [query_value(self._world.values(self._query, second), ignore_null=False) for second in seconds]
        return next((one for one in found if not isinstance(one, Failed) and int(one * 1000) == answer), value)

    def _go_on(self, replicas: int) -> None:
        """To the next phase when this one has lasted long enough and led where it should."""
        phase, self._since = self._path[0], self._since + 1
        if self._since >= phase.ticks and phase.reach in (0, replicas):
            del self._path[0]
            self._since = 0

    def _mirrored(self, value: Value, sight: KedaSight) -> int | None:
        served = serve(self._scaled, (value,), self._state.failures, sight.spec_replicas, sight.ready)
        [reading] = served.readings
        return reading.values[0] if isinstance(reading, Total) else None

    def _wait(self) -> float:
        """Until the next point of the grid; the first answer is its beginning."""
        if self._sight is None:
            self._anchor_s = time.monotonic()
            return 0.0
        gone_s = time.monotonic() - self._anchor_s
        slot = int(gone_s / STEP_S) + 1
        time.sleep(max(0.0, slot * STEP_S - gone_s))
        return time.monotonic() - self._anchor_s


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
        "late": sum(one.late for one in ticks),
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
