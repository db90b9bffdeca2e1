"""When training last kept a checkpoint, as its own pods say: nobody else knows what lies in its folder or bucket.

`reading` asks the pods. A gauge with the moment of the last checkpoint in Unix seconds says it
(`checkpoint_timestamp_seconds`, or the name in the annotation `dure.dev/checkpoint-metric`), or the annotation
`dure.dev/checkpointed` on the pod; zero is none yet. It is kept in the Placement's status with its generation. Where
nothing is said `progress` counts by the clock. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dure.adapters.kube import names
from dure.adapters.kube.exposition import Samples
from dure.adapters.kube.objects import KubePod
from dure.model.units import Instant, Seconds

Json = dict[str, Any]
GAUGE = "checkpoint_timestamp_seconds"


class Saved(NamedTuple):
    """The last checkpoint of a generation (zero: none yet), and how long it had worked for it since it began."""

    at_s: Instant
    worked_s: Seconds


def said_by(pod: KubePod) -> Instant | None:
    """What the pod carries as an annotation; None when it does not, or no number."""
    return _moment(pod.metadata.annotations.get(names.CHECKPOINTED, ""))


def shown_by(samples: Samples, pod: KubePod) -> Instant | None:
    """The gauge in what the pod shows; of several series (one for each rank) the oldest is safe."""
    wanted = pod.metadata.annotations.get(names.CHECKPOINT_METRIC, GAUGE)
    found = (_moment(one.value) for one in samples.get(wanted, []))
    return min((at_s for at_s in found if at_s is not None), default=None)


def saved_of(status: Json, generation: int) -> Saved | None:
    """What pods of this generation have said so far; None when they say nothing."""
    if status.get("savedGeneration") != generation:
        return None
    return Saved(float(status["savedSeconds"]), float(status["savedWorkSeconds"]))


def saved(status: Json, generation: int, said: Sequence[Instant], begun_s: Instant, now_s: Instant) -> Json:
    """What of the status changes. `begun_s` is when the last of its pods came up.

    Members that save apart are safe up to the one that saved first. Pods that begin again go on from the last
    checkpoint, so what they had done since counts once it is done again.
    """
    if not said:
        return {}
    before = saved_of(status, generation)
    at_s, worked_s = before or Saved(0.0, 0.0)
    newest_s = min(*said, now_s)
    gained_s = newest_s - max(at_s, begun_s)
    if gained_s > 0:
        at_s, worked_s = newest_s, worked_s + gained_s
    elif before is not None:
        return {}
    return {"savedGeneration": generation, "savedSeconds": at_s, "savedWorkSeconds": worked_s}


def _moment(value: str | float) -> Instant | None:
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None
