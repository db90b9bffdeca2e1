"""Keeps Deployments of a cluster at the number of replicas that their own traffic asks for.

Turned by `dure scale replicas`, now and then: reads what engines (or the front before them) show, lets the replica
engine decide, and scales the Deployment, or leaves the wish to who divides a pool. What was learnt lives here only; a
restart begins to learn anew and meanwhile follows demand as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from dure.model.errors import DureError
from dure.model.pulse import Pulse, Scaling
from dure.model.units import Instant, Seconds
from dure.scale.demand import WorkModel
from dure.scale.engines import EngineSettings, Look, ReplicaEngine, Verdict
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, work_of


class Levers(Protocol):
    """What can be seen of Deployments and done to them."""

    def fetch(self, name: str) -> Held: ...

    def scale(self, name: str, replicas: int) -> None: ...

    def write_wanted(self, name: str, replicas: int) -> None: ...


class Turned(msgspec.Struct, frozen=True):
    """One look at one service: what it has, what it should have, and why; `error` when it could not be looked at."""

    service: str
    replicas: int
    verdict: Verdict | None
    error: str = ""


class ReplicaKeeper:
    """`pulse` reads what a service shows now; None when nothing answered."""

    def __init__(
        self,
        services: Mapping[str, Scaled],
        levers: Levers,
        pulse: Callable[[str, Scaled], Pulse | None],
        step_s: Seconds = 15.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._services, self._levers, self._pulse, self._tell = services, levers, pulse, tell
        self._engines = {
            name: ReplicaEngine(
                EngineSettings(
                    boot_s=one.boot,
                    # Whoever is named here is scaled by something: without a pulse that is HPA's rules.
                    scaling=Scaling.SERVING if one.scaling is Scaling.AUTO else one.scaling,
                    step_s=step_s,
                    stale_s=max(180.0, 4 * step_s),
                    safety=one.safety,
                    min_replicas=one.min,
                    max_replicas=one.max,
                ),
                WorkModel() if one.weights is None else work_of(one),
            )
            for name, one in services.items()
        }
        self._lacked: dict[str, str] = {}

    def turn(self, now_s: Instant, *, apply: bool = True) -> tuple[Turned, ...]:
        """Look at every service once; one that cannot be looked at does not keep the others from theirs."""
        return tuple(self._look(name, now_s, apply) for name in self._services)

    def _look(self, name: str, now_s: Instant, apply: bool) -> Turned:
        service = self._services[name]
        try:
            held = self._levers.fetch(name)
            pulse = self._pulse(name, service)
            look = Look(now_s, held.replicas, held.ready, pulse, None, service.carries)
            verdict = self._engines[name].decide(look)
            if verdict is not None:
                self._say(name, verdict)
                if apply and verdict.replicas != held.replicas:
                    self._act(name, service, held.replicas, verdict)
            return Turned(name, held.replicas, verdict)
        except DureError as error:
            return Turned(name, 0, None, str(error))

    def _act(self, name: str, service: Scaled, before: int, verdict: Verdict) -> None:
        if service.pool:
            self._levers.write_wanted(name, verdict.replicas)
        else:
            self._levers.scale(name, verdict.replicas)
        self._tell(f"{name}: {before} -> {verdict.replicas} by '{verdict.by}': {verdict.why}")

    def _say(self, name: str, verdict: Verdict) -> None:
        """Once when serving metrics fail, and once when they are back."""
        if bool(verdict.fallback) != bool(self._lacked.get(name)):
            said = f"HPA's rules: {verdict.fallback}" if verdict.fallback else "its serving metrics again"
            self._tell(f"{name} is scaled by {said}")
        self._lacked[name] = verdict.fallback
