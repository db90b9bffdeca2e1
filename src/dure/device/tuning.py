"""What the executor learns while it runs: corrections of predictions, rho, weights, targets, the policy in force.

Pure parts come from `share`; this keeps their state. `tick` closes a window about once a second; the time-series
database stays out of the squad loop. Only the executor's thread writes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from dure.device.config import AUTO, DeviceConfig
from dure.device.record import Record, WeightPoint
from dure.share import feedback, predict, weights
from dure.share.choose import Choice, Mood, choose
from dure.share.interference import App, Observation, empty_book
from dure.share.promise import Attainment, attainment, worst

WINDOW_MS = 1000.0
SPAN_MS = 10_000.0
BATCH = 32
"""Observations that are learnt together: one solve for all of them."""
NO_TARGET_MS = 1e6


class Tuner:
    """State of one device's learning."""

    def __init__(self, config: DeviceConfig, record: Record) -> None:
        self._config = {t.name: t for t in config.tenants}
        self._goals = config.goals
        self._record = record
        self._lock = threading.Lock()
        self._corrections = {name: predict.Correction() for name in self._config}
        self._apps = {name: App(t.model) for name, t in self._config.items()}
        self._seen: list[Observation] = []
        self._said: tuple[feedback.Said, ...] = ()
        self._closed_ms = 0.0
        self._fixed = None if config.policy == AUTO else config.policy
        self._choice = Choice(config.goals.otherwise)
        self.book = empty_book()
        self.weights = {name: t.weight for name, t in self._config.items()}
        self.standing: dict[str, Attainment] = {}

    @property
    def policy(self) -> str:
        """The policy for the next squad."""
        return self._fixed or self._choice.policy

    @property
    def automatic(self) -> bool:
        return self._fixed is None

    def fix(self, policy: str | None) -> None:
        self._fixed = policy

    def app(self, tenant: str) -> App:
        return self._apps[tenant]

    def predicted(self, tenant: str, segments_ms: Sequence[float]) -> list[float]:
        factor = self._corrections[tenant].factor
        return [ms * factor for ms in segments_ms]

    def target_ms(self, tenant: str, now_ms: float) -> float:
        """The latency promised now, moved by what people said."""
        base = self._config[tenant].promise.latency_ms
        if base is None:
            return NO_TARGET_MS
        return feedback.target_ms(base, self._said, tenant, now_ms) if self._said else base

    def say(self, said: feedback.Said) -> None:
        with self._lock:
            self._said = feedback.kept((*self._said, said), said.at_ms)

    def said(self, now_ms: float) -> tuple[feedback.Said, ...]:
        return feedback.kept(self._said, now_ms)

    def learn(self, tenant: str, neighbours: Sequence[str], share: float, alone_ms: float, spent_ms: float) -> None:
        """One member's part of a squad has ended."""
        if alone_ms <= 0.0 or spent_ms <= 0.0:
            return
        if not neighbours:
            self._corrections[tenant] = predict.observe(self._corrections[tenant], alone_ms, spent_ms)
            return
        expected = predict.corrected_ms(alone_ms, self._corrections[tenant])
        for other in neighbours[:1]:
            speed = min(expected / spent_ms, 1.0)
            self._seen.append(Observation(self.app(tenant), self.app(other), share, max(1.0 - share, share), speed))
        if len(self._seen) >= BATCH:
            self.book = self.book.learn(self._seen)
            self._seen = []

    def tick(self, now_ms: float, waiting: Mapping[str, int]) -> None:
        """Once in a window: attainment, equation 3, and the policy that the goals ask for."""
        if now_ms - self._closed_ms < WINDOW_MS:
            return
        self._closed_ms = now_ms
        found: dict[str, Attainment] = {}
        standings = {}
        for name, tenant in self._config.items():
            standing = worst(attainment(tenant.promise, self._record.answers(name, now_ms - SPAN_MS), SPAN_MS))
            if standing is not None:
                found[name] = standing
            target, actual = (standing.target, standing.actual) if standing else (1.0, 1.0)
            standings[name] = weights.Standing(tenant.weight, self.weights[name], target, actual)
        self.standing = found
        self.weights = weights.update(standings)
        self._choice = choose(self._choice, self._mood(waiting), self._goals)
        self._record.add_weights(WeightPoint(now_ms, dict(self.weights), self.policy))

    def _mood(self, waiting: Mapping[str, int]) -> Mood:
        tenants = len(self._config)
        return Mood(
            risk=max((a.risk for a in self.standing.values()), default=0.0),
            load=sum(waiting.values()) / tenants,
            late=sum(a.actual < a.target for a in self.standing.values()) / tenants,
            batch=sum(t.batch for t in self._config.values()) / tenants,
            queue=sum(waiting.values()) / tenants,
        )
