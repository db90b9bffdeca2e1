"""Who holds the replica lever of one service: Dure's own policy, the rules of HPA, or those of KEDA.

Called live by the plane (`plane.steering`) and by `dure scale replicas` (`agent.replicas`), with one look at a
service each time; the rules themselves are the very code that the benchmark plays. Dure's policy needs a pulse
(requests, tokens, what waits). While that is missing or too old the rules of HPA hold the lever, on the plain
request rate where that is still counted, else on a failed metric, which leaves the replicas as they are; the verdict
says so. Cost: that of a step of the policy.
"""

from __future__ import annotations

import math

import msgspec

from dure.model.pulse import Pulse, Scaling
from dure.model.units import Instant, Seconds
from dure.scale.demand import Seen, WorkModel
from dure.scale.hpa import engine as hpa
from dure.scale.hpa.normalize import HpaState
from dure.scale.hpa.observe import Missing, Pod, Sight, Total
from dure.scale.hpa.spec import External, HpaSpec
from dure.scale.keda import engine as keda
from dure.scale.keda.serve import Failed
from dure.scale.keda.spec import ScaledObject, Trigger
from dure.scale.presets import CAUTIOUS
from dure.scale.serving import ServingPolicy, ServingSettings, Wish

# A gap that is longer than this many steps is filled no further: what was before it says little.
LONGEST_GAP = 240


class EngineSettings(msgspec.Struct, frozen=True):
    """`boot_s` is from asking for a replica until it answers; metrics older than `stale_s` count as missing."""

    boot_s: Seconds
    scaling: Scaling = Scaling.AUTO
    step_s: Seconds = 15.0
    stale_s: Seconds = 180.0
    safety: float = 2.0
    min_replicas: int = 1
    max_replicas: int = 100


class Look(msgspec.Struct, frozen=True):
    """One service now. `carries` is how many requests per second a replica answers in time, as far as is known;
    `requests` the plain counter of a service whose engines show no pulse."""

    now_s: Instant
    replicas: int
    ready: int
    pulse: Pulse | None = None
    requests: int | None = None
    carries: float | None = None


class Verdict(msgspec.Struct, frozen=True):
    """How many replicas there should be, by whose rules, and why; `fallback` says what Dure's policy lacks."""

    replicas: int
    by: Scaling
    reason: str
    why: str
    fallback: str = ""


class ReplicaEngine:
    """Remembers what it was shown; a pure function of that."""

    def __init__(self, settings: EngineSettings, work: WorkModel = WorkModel()) -> None:  # noqa: B008  # frozen
        self.settings = settings
        self.policy = ServingPolicy(
            ServingSettings(
                boot_s=settings.boot_s,
                safety=settings.safety,
                step_s=settings.step_s,
                min_replicas=settings.min_replicas,
                max_replicas=settings.max_replicas,
            ),
            work,
        )
        self._last: Pulse | None = None
        self._counts: list[tuple[Instant, int]] = []
        self._next_s: Instant = 0.0
        self._hpa = HpaState()
        self._keda = keda.KedaState()

    @property
    def steers(self) -> bool:
        """Whether the lever is this engine's: somebody chose one, or a pulse was seen."""
        return self.settings.scaling is not Scaling.AUTO or self._last is not None

    def decide(self, look: Look) -> Verdict | None:
        """None while there is nothing new to decide on, or where the lever is not ours."""
        wanted = self.settings.scaling
        if wanted is Scaling.HPA or wanted is Scaling.KEDA:
            return self._threshold(look, wanted, "")
        pulse = look.pulse
        if pulse is not None and look.now_s - pulse.at_s <= self.settings.stale_s:
            self._counts = []
            return self._serving(look, pulse)
        if not self.steers:
            return None
        last = pulse or self._last
        lacks = "no serving metrics" if last is None else f"serving metrics are {look.now_s - last.at_s:.0f} s old"
        return self._threshold(look, Scaling.HPA, lacks)

    def _serving(self, look: Look, pulse: Pulse) -> Verdict | None:
        last = self._last
        if last is None or pulse.asked < last.asked or pulse.answered < last.answered:
            self._last = pulse
            return None
        steps = math.floor((pulse.at_s - last.at_s) / self.settings.step_s + 1e-6)
        if steps < 1:
            return None
        until = _at(last, pulse, last.at_s + steps * self.settings.step_s)
        self._last = until
        self.policy.carries = look.carries
        wish = self._fed(last, until, steps, look.replicas)
        return Verdict(wish.replicas, Scaling.SERVING, wish.reason, self._told(wish, pulse))

    def _fed(self, last: Pulse, pulse: Pulse, steps: int, target: int) -> Wish:
        """What came since the last step, spread evenly over the steps that have passed."""
        waiting_tokens = pulse.waiting_tokens
        if waiting_tokens is None:
            waiting_tokens = pulse.waiting * self.policy.meter.context.mean
        for step in range(max(1, steps - LONGEST_GAP), steps + 1):
            wish = self.policy.step(
                Seen(
                    _part(pulse.asked - last.asked, step, steps),
                    _part(pulse.prompt_tokens - last.prompt_tokens, step, steps),
                    pulse.waiting,
                    waiting_tokens,
                    _part(pulse.answered - last.answered, step, steps),
                    _part(pulse.output_tokens - last.output_tokens, step, steps),
                    target,
                )
            )
        return wish

    def _told(self, wish: Wish, pulse: Pulse) -> str:
        load = self.policy.load
        found = f"{wish.reason}: demand fills {wish.demand / load:.2f} replicas"
        if wish.forecast_on and wish.floor > 0.0:
            found += f", {wish.floor / load:.2f} provided for in {self.settings.boot_s:.0f} s"
        elif not wish.forecast_on:
            found += ", the forecast is off as it was worse than none"
        return f"{found}, {pulse.waiting} requests wait"

    def _threshold(self, look: Look, by: Scaling, lacks: str) -> Verdict | None:
        """The rules of HPA or KEDA on the request rate; the target is the guide's cautious part of `carries`."""
        if look.now_s < self._next_s:
            return None
        self._next_s = look.now_s + self.settings.step_s
        rate, carries = self._rate(look), look.carries
        known = rate is not None and carries is not None and carries > 0.0
        target = CAUTIOUS.up_at / 100.0 * (carries or 1.0)
        bounds = self.settings
        if by is Scaling.KEDA:
            trigger = Trigger("rate", target, metric_type="AverageValue")
            scaled = ScaledObject((trigger,), min_replicas=bounds.min_replicas, max_replicas=bounds.max_replicas)
            value = rate if known and rate is not None else Failed("no request rate")
            sight = keda.KedaSight(look.now_s, look.replicas, look.replicas, look.ready, (value,))
            step = keda.tick(scaled, self._keda, sight)
            self._keda, replicas, reason = step.state, step.replicas, step.reason
        else:
            spec = HpaSpec(
                max_replicas=bounds.max_replicas,
                min_replicas=bounds.min_replicas,
                metrics=(External("rate", average_value=max(1, int(target * 1000))),),
            )
            reading = Total((int(rate * 1000),)) if known and rate is not None else Missing("no request rate")
            pods = tuple(Pod(str(index)) for index in range(look.ready))
            outcome = hpa.sync(spec, self._hpa, Sight(look.now_s, look.replicas, look.replicas, (reading,), pods))
            self._hpa, replicas = outcome.state, outcome.replicas
            reason = outcome.reason or next((one.reason for one in outcome.conditions if not one.status), "")
        said = f"{rate:.3g} requests/s, {target:.3g} for each replica" if known else "nobody counts its requests"
        why = f"{by.value.upper()} rules: {said}"
        return Verdict(replicas, by, reason or "Steady", f"{lacks}; {why}" if lacks else why, lacks)

    def _rate(self, look: Look) -> float | None:
        """Requests per second over the last minute or more; None when the counter stands still or is not there."""
        counted = look.requests if look.pulse is None or look.requests is not None else look.pulse.asked
        if counted is None:
            return None
        if not self._counts or counted < self._counts[-1][1]:
            self._counts = [(look.now_s, counted)]
            return None
        if counted > self._counts[-1][1]:
            self._counts.append((look.now_s, counted))
        newest_s = self._counts[-1][0]
        while len(self._counts) > 2 and newest_s - self._counts[1][0] >= 60.0:
            del self._counts[0]
        (since_s, first), (until_s, last) = self._counts[0], self._counts[-1]
        if until_s <= since_s or look.now_s - until_s > self.settings.stale_s:
            return None
        return (last - first) / (until_s - since_s)


def _at(last: Pulse, now: Pulse, at_s: Instant) -> Pulse:
    """The counters at a moment between two looks, if requests came evenly; what waits is as it is now."""
    share = (at_s - last.at_s) / (now.at_s - last.at_s)
    if share >= 1.0:
        return now

    def between(one: int, other: int) -> int:
        return one + round((other - one) * share)

    return msgspec.structs.replace(
        now,
        at_s=at_s,
        asked=between(last.asked, now.asked),
        prompt_tokens=between(last.prompt_tokens, now.prompt_tokens),
        answered=between(last.answered, now.answered),
        output_tokens=between(last.output_tokens, now.output_tokens),
    )


def _part(total: int, step: int, steps: int) -> int:
    """The share of one of several equal steps; together they are the whole."""
    return total * step // steps - total * (step - 1) // steps
