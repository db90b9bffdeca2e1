"""A Deployment that Dure scales without having placed it: what `dure scale replicas` reads from its file."""

from __future__ import annotations

import msgspec

from dure.model.pulse import Scaling
from dure.model.units import Seconds
from dure.scale.demand import WorkModel


class Weights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tokens and requests take of what a replica carries within its promise."""

    prompt: float
    output: float
    request: float


class Scaled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Deployment: its bounds, how long a replica takes to answer, what it carries, and who decides.

    `carries` is in requests per second, as a load test found it; `weights` instead are GPU-seconds of a prompt token,
    of an output token and of a request, as `dure scale tune` finds them for a replica that carries one. With `pool`
    the wish is left to `dure scale pool`. `front` is the address of the `dure front` before it, which knows what
    waits there as well.
    """

    min: int = 1
    max: int = 100
    boot: Seconds = 150.0
    carries: float | None = None
    weights: Weights | None = None
    safety: float = 2.0
    scaling: Scaling = Scaling.AUTO
    pool: bool = False
    front: str = ""


# Until a replica answers on a machine that is there: a pod that starts, and an engine that wakes.
POD_START_S, WAKE_S = 20.0, 3.0
DRAIN_S = 60.0


class Share(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Machines that some services share, at most `most`: a replica starts in `start` on one that is there, in `boot`
    on one that is not. The Deployment `placeholders` keeps those that nobody runs on (`agent.warm`). With `asleep`
    every service has an engine on every machine instead, of which one is awake (`agent.awake`); one that gives its
    machine has `drain` seconds to finish its requests."""

    services: tuple[str, ...]
    placeholders: str = ""
    boot: Seconds = 150.0
    start: Seconds | None = None
    safety: float = 2.0
    most: int = 1000
    asleep: bool = False
    drain: Seconds | None = None

    @property
    def start_s(self) -> Seconds:
        if self.start is not None:
            return self.start
        return WAKE_S if self.asleep else POD_START_S

    @property
    def drain_s(self) -> Seconds:
        return self.drain if self.drain is not None else DRAIN_S


def work_of(service: Scaled) -> WorkModel:
    """What requests weigh: as it was found, in requests that a replica carries, or as an engine computes."""
    found = service.weights
    if found is not None:
        return WorkModel(found.prompt, found.output, found.request)
    return WorkModel() if service.carries is None else WorkModel(0.0, 0.0, 1.0 / service.carries)
