"""A mix of jobs for routing experiments: queues with slots, jobs with an arrival and a run time per queue.

Read from files that anybody may write, so every mistake is named with its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import msgspec

from dure.model.errors import InvalidInput
from dure.model.units import Instant, Seconds

HOME = "gpu"
KINDS = ("gpu", "light")
LONGEST_S = 1e7


class MixQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`slots` jobs at once on `nodes` nodes (one job each by default); neighbours run `slowdown` times as long."""

    slots: int
    nodes: int = 0
    slowdown: float = 1.0


class MixJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arrival_s: Instant
    kind: str
    run_s: Mapping[str, Seconds]

    @property
    def home(self) -> str:
        """The GPU queue if it may run there, else the queue where it runs fastest."""
        return HOME if HOME in self.run_s else min(self.run_s, key=lambda queue: (self.run_s[queue], queue))


class Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    queues: Mapping[str, MixQueue]
    jobs: tuple[MixJob, ...]


def parse(text: str | bytes, where: str) -> Mix:
    """A mix from the text of a JSON file; the message of an error names the job or queue."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}", where=where) from error
    try:
        mix = msgspec.convert(raw, Mix)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), where=where, remedy=_SHAPE) from error
    _check(mix, where)
    return mix


def _check(mix: Mix, where: str) -> None:
    if not mix.queues or not mix.jobs:
        raise InvalidInput("a scenario needs at least one queue and one job", where=where, remedy=_SHAPE)
    for name, queue in mix.queues.items():
        _queue(name, queue, where)
    names: set[str] = set()
    for job in mix.jobs:
        _job(job, mix, where)
        if job.name in names:
            raise InvalidInput(f"two jobs are called '{job.name}'", where=where)
        names.add(job.name)


def _queue(name: str, queue: MixQueue, where: str) -> None:
    if queue.slots < 1 or queue.slots > 10_000:
        raise InvalidInput(f"queue '{name}': slots must be from 1 to 10000, not {queue.slots}", where=where)
    if queue.nodes < 0 or queue.nodes > queue.slots:
        raise InvalidInput(f"queue '{name}': nodes must be from 0 to its slots", where=where)
    if not 1.0 <= queue.slowdown <= 100.0:
        raise InvalidInput(f"queue '{name}': slowdown must be from 1 to 100, not {queue.slowdown}", where=where)


def _job(job: MixJob, mix: Mix, where: str) -> None:
    place = f"{where}: job '{job.name}'"
    if not job.name:
        raise InvalidInput("a job has no name", where=where)
    if job.kind not in KINDS:
        raise InvalidInput(f"kind '{job.kind}' is neither gpu nor light", where=place)
    if not math.isfinite(job.arrival_s) or not 0 <= job.arrival_s <= LONGEST_S:
        raise InvalidInput(f"arrival_s must be a time from 0, not {job.arrival_s}", where=place)
    if not job.run_s:
        raise InvalidInput("run_s names no queue", where=place)
    for queue, seconds in job.run_s.items():
        if queue not in mix.queues:
            raise InvalidInput(
                f"run_s names queue '{queue}'", where=place, remedy=f"The queues are: {', '.join(mix.queues)}."
            )
        if not math.isfinite(seconds) or not 0 < seconds <= LONGEST_S:
            raise InvalidInput(f"the run time in '{queue}' must be positive, not {seconds}", where=place)


_SHAPE = (
    'Write {"name", "queues": {"gpu": {"slots": 4}, "cpu": {"slots": 6}}, '
    '"jobs": [{"name", "arrival_s", "kind": "gpu" or "light", "run_s": {"gpu": 26, "cpu": 90}}]}.'
)
