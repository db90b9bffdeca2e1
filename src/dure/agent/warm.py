"""Keeps Deployments that share machines: who runs how many replicas, and how many nodes are kept for what may come.

Turned by `dure scale replicas` for the services of its `share`. Nodes are kept by a Deployment of placeholders: pods
of the lowest priority that ask for what a replica asks for and do nothing. A replica pushes one aside and starts on a
node that is there; the one that was pushed aside waits, for which the cluster's node autoscaler boots a node; on a
node that a replica has left it keeps the node from being let go. So placeholders are all that is ever asked of nodes.
What was learnt lives here only; after a restart nothing is let go for as long as needs are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from dure.model.errors import DureError
from dure.model.pulse import Pulse
from dure.model.units import Instant, Seconds
from dure.scale.demand import Seen
from dure.scale.reallocation import Held
from dure.scale.scaled import Scaled, Share, work_of
from dure.scale.serving import ServingSettings
from dure.scale.warm import Division, Machines, WarmPolicy, WarmSettings, asleep


class Levers(Protocol):
    """What can be seen of Deployments and done to them."""

    def fetch(self, name: str) -> Held: ...

    def scale(self, name: str, replicas: int) -> None: ...


class Shared(msgspec.Struct, frozen=True):
    """One turn: replicas before and after; placeholders, or machines where engines sleep, before and after; `error`
    when nothing was decided."""

    replicas: dict[str, tuple[int, int]]
    kept: tuple[int, int]
    error: str = ""


class Divider:
    """Asks the policy who should have how many machines, on what the services show between two looks.

    `pulse` reads what a service shows now; None when nothing answered, and then nothing is decided.
    """

    def __init__(
        self,
        share: Share,
        services: Mapping[str, Scaled],
        pulse: Callable[[str, Scaled], Pulse | None],
        step_s: Seconds,
    ) -> None:
        self._services, self._pulse, self._step_s = services, pulse, step_s
        self._policy = WarmPolicy(
            settings_for(share, step_s),
            [work_of(one) for one in services.values()],
            [one.min for one in services.values()],
            [one.max for one in services.values()],
        )
        self._last: dict[str, Pulse] = {}
        self._held_s = ServingSettings(share.boot).held_s(None)
        self._since_s: Instant | None = None

    def divide(self, now_s: Instant, replicas: Mapping[str, int], machines: Machines) -> Division | None:
        """None at the first look, which only says where counters begin."""
        seen = self._seen(replicas)
        if seen is None:
            return None
        self._since_s = now_s if self._since_s is None else self._since_s
        learns = now_s - self._since_s < self._held_s
        # While machines boot none is let go; nor is one before there is anything to compare the last moments with.
        return self._policy.step(seen, replace(machines, booting=max(machines.booting, int(learns))))

    def _seen(self, replicas: Mapping[str, int]) -> list[Seen] | None:
        shown: dict[str, Pulse] = {}
        for name, service in self._services.items():
            pulse = self._pulse(name, service)
            if pulse is not None:
                shown[name] = pulse
        last, self._last = self._last, shown
        if len(shown) < len(self._services) or len(last) < len(self._services):
            return None
        found = []
        for (name, pulse), one in zip(shown.items(), self._policy.ones, strict=True):
            if pulse.asked < last[name].asked or pulse.answered < last[name].answered:
                return None
            found.append(_between(last[name], pulse, replicas[name], one.slow.context.mean, self._step_s))
        return found


def settings_for(share: Share, step_s: Seconds) -> WarmSettings:
    """Engines that sleep change hands by other thresholds than pods do."""
    if share.asleep:
        return asleep(share.boot, share.safety, step_s, share.most, warm_s=share.start_s)
    return WarmSettings(share.boot, share.start_s, share.safety, step_s=step_s, most=share.most)


class ShareKeeper:
    """Replicas are pods: one ends and another starts."""

    def __init__(
        self,
        share: Share,
        services: Mapping[str, Scaled],
        levers: Levers,
        pulse: Callable[[str, Scaled], Pulse | None],
        step_s: Seconds = 15.0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._share, self._services, self._levers, self._tell = share, services, levers, tell
        self._divider = Divider(share, services, pulse, step_s)

    def turn(self, now_s: Instant, *, apply: bool = True) -> Shared | None:
        """One look at all of them; None for the first, which only says where their counters begin."""
        try:
            held = {name: self._levers.fetch(name) for name in self._services}
            kept = self._levers.fetch(self._share.placeholders)
            leaving = sum(max(one.pods - one.replicas, 0) for one in held.values())
            machines = Machines(kept.ready, max(kept.replicas - kept.ready, 0), leaving)
            before = {name: one.replicas for name, one in held.items()}
            division = self._divider.divide(now_s, before, machines)
            if division is None:
                return None
            replicas = dict(zip(held, division.replicas, strict=True))
            placeholders = max(division.machines - sum(division.replicas), 0)
            if apply:
                self._apply(before, replicas, kept.replicas, placeholders)
            pairs = {name: (before[name], count) for name, count in replicas.items()}
            return Shared(pairs, (kept.replicas, placeholders))
        except DureError as error:
            return Shared({}, (0, 0), str(error))

    def _apply(self, held: Mapping[str, int], replicas: Mapping[str, int], kept: int, placeholders: int) -> None:
        """Who gives back goes first, so that who takes finds room."""
        for name in sorted(replicas, key=lambda name: replicas[name] - held[name]):
            if replicas[name] != held[name]:
                self._levers.scale(name, replicas[name])
                self._tell(f"{name}: {held[name]} -> {replicas[name]} replicas of the shared machines")
        if placeholders != kept:
            self._levers.scale(self._share.placeholders, placeholders)
            self._tell(f"{self._share.placeholders}: {kept} -> {placeholders} machines kept warm or booting")


def _between(last: Pulse, now: Pulse, replicas: int, context: float, step_s: Seconds) -> Seen:
    """What came between two looks, as if they had been one step apart."""
    part = step_s / max(now.at_s - last.at_s, 1e-3)
    tokens = now.waiting_tokens if now.waiting_tokens is not None else now.waiting * context
    return Seen(
        round((now.asked - last.asked) * part),
        round((now.prompt_tokens - last.prompt_tokens) * part),
        now.waiting,
        tokens,
        round((now.answered - last.answered) * part),
        round((now.output_tokens - last.output_tokens) * part),
        replicas,
    )
