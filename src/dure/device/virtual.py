"""A shared device without hardware: the same brain as the real daemon, on kernels that take virtual time.

`play` moves it forward: requests come in, `share` forms squads, members run at the speed that their SMs and equation
1 allow, and lower ranks fill at every moment the SMs that higher ranks leave. What is true of pairs (their rho) is
hidden from the brain, which has to learn it. Same loads, seed and calls, same bytes. The embedded fleet plays the
shared devices of the demo with it.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dure.device.config import DeviceConfig, known_policies
from dure.device.foreign import failed
from dure.device.record import Bubble, Record, Span, SquadRun
from dure.device.tuning import Spoken, Tuner
from dure.share.interference import phi
from dure.share.promise import Answered
from dure.share.split import freed
from dure.share.squad import Member, Waiting, form

PARTS = 18
SWITCH_MS = 0.023
"""Idle time of a member's SMs between two squads: switch and first launch."""
MOST_WAITING = 64
"""A service turns requests away when so many wait already."""
EPS = 1e-9


class Load(NamedTuple):
    """What one tenant runs. `need` is the part of the device each segment can fill; rate 0 means it never rests."""

    segments_ms: tuple[float, ...]
    need: tuple[float, ...]
    rate_per_s: float


class _Request:
    def __init__(self, number: int, at_ms: float) -> None:
        self.number = number
        self.at_ms = at_ms
        self.next = 0


class _Run:
    """A member at work: `left_ms` is the rest of its current segment, in ms alone on the whole device."""

    def __init__(self, first: int, now_ms: float, left_ms: float) -> None:
        self.first = self.at = self.last = first
        self.asked = -1
        self.left_ms = left_ms
        self.squad = self.rank = self.claim = self.most = 0
        self.held = self.shown = 0
        self.shown_ms = now_ms
        self.room = self.rate = 0.0
        self.undisturbed_ms = 0.0


class VirtualDevice:
    """Not thread safe: whoever plays it holds a lock of its own."""

    unit = "partitions"
    exclusive = False
    parts = PARTS

    def __init__(
        self, config: DeviceConfig, loads: Mapping[str, Load], *, seed: int = 0, spoken: Spoken | None = None
    ) -> None:
        self.config = config
        self.record = Record()
        self.tuner = Tuner(config, self.record, spoken)
        self._tenants = {tenant.name: tenant for tenant in config.tenants}
        self._loads = dict(loads)
        self._rng = np.random.default_rng([seed, _number(config.name)])
        self._policies = known_policies()
        self._now = 0.0
        self._numbers = self._squads = 0
        self._queues: dict[str, deque[_Request]] = {name: deque() for name in sorted(loads)}
        self._next = {name: self._gap(name) for name in self._queues}
        self._runs: dict[str, _Run] = {}

    def now_ms(self) -> float:
        return self._now

    def waiting(self) -> dict[str, int]:
        return {name: len(queue) for name, queue in self._queues.items()}

    def ready(self) -> bool:
        return True

    def starts(self, _tenant: str) -> int:
        return 1

    def need(self, tenant: str) -> float:
        """The part of the device that a request fills, over its time alone."""
        load = self._loads[tenant]
        return sum(n * ms for n, ms in zip(load.need, load.segments_ms, strict=True)) / sum(load.segments_ms)

    def refused(self) -> dict[str, str]:
        return {}

    def scheduler_us(self) -> float:
        """Virtual kernels cost no scheduler time that would mean anything."""
        return 0.0

    def set_aside(self) -> dict[str, str]:
        """Policies of other packages that failed, and why."""
        return {name: why for name, rank in self._policies.items() if (why := failed(rank))}

    def set_policy(self, name: str) -> None:
        """Use this policy, or `auto`, from the next squad on."""
        self.tuner.set_policy(name, self._policies)

    def set_rate(self, tenant: str, rate_per_s: float) -> None:
        """From its next request on a tenant asks this often."""
        self._loads[tenant] = self._loads[tenant]._replace(rate_per_s=rate_per_s)

    def play(self, span_ms: float) -> None:
        """Let this much of the device's own time pass."""
        end = self._now + span_ms
        while self._now < end - EPS:
            self._arrive()
            self._dispatch()
            self._share_out()
            until = min(end, self._next_event())
            self._advance(until)
            self._finish()
            self.tuner.tick(self._now, self.waiting())

    def _gap(self, name: str) -> float:
        rate = self._loads[name].rate_per_s
        return float(self._rng.exponential(1000.0 / rate)) if rate > 0.0 else 0.0

    def _arrive(self) -> None:
        for name, queue in self._queues.items():
            if self._loads[name].rate_per_s <= 0.0:
                if not queue:
                    self._enter(name, self._now)
                continue
            while self._next[name] <= self._now + EPS:
                if len(queue) < MOST_WAITING:
                    self._enter(name, self._next[name])
                else:
                    self.record.add_answer(name, Answered(self._now, 0.0, ok=False))
                self._next[name] += self._gap(name)

    def _enter(self, name: str, at_ms: float) -> None:
        self._numbers += 1
        self._queues[name].append(_Request(self._numbers, at_ms))

    def _dispatch(self) -> None:
        """Whenever somebody with work does not run, or is at the last segment of its part, arrange all who have work
        anew; segments under way go on."""
        busy = [name for name, queue in self._queues.items() if queue]
        if all(name in self._runs and not self._runs_out(name) for name in busy):
            return
        policy = self.tuner.policy
        squad = form([self._waiting(name) for name in busy], policy, self._policies[policy], self.tuner.book)
        self._squads += 1
        for run in self._runs.values():
            run.rank, run.claim, run.most = PARTS, 0, 0
            run.last = run.asked = run.at + 1
        for member in squad.members:
            self._start(member)
        members = tuple((m.tenant, m.segments, m.parts) for m in squad.members)
        self.record.add_squad(SquadRun(self._squads, self._now, policy, members, squad.predicted_ms))

    def _runs_out(self, name: str) -> bool:
        """It begins the last segment of its part and has more: the next squad is formed before it would idle."""
        run = self._runs[name]
        return run.last == run.at + 1 < len(self._loads[name].segments_ms) and run.asked != run.last

    def _start(self, member: Member) -> None:
        name = member.tenant
        run = self._runs.get(name)
        if run is None:
            at = self._queues[name][0].next
            run = self._runs[name] = _Run(at, self._now, self._loads[name].segments_ms[at] + SWITCH_MS)
        self._show(name, run)
        run.squad, run.rank, run.claim, run.most = self._squads, member.rank, member.claim, member.most
        run.last = run.at + member.segments

    def _waiting(self, name: str) -> Waiting:
        request, load, run = self._queues[name][0], self._loads[name], self._runs.get(name)
        config = self._tenants[name]
        at = run.at if run is not None else request.next
        times = load.segments_ms[at:] if run is None else (max(run.left_ms, EPS), *load.segments_ms[at + 1 :])
        segments = self.tuner.predicted(name, times)
        left_ms = sum(segments)
        need = sum(n * ms for n, ms in zip(load.need[at:], segments, strict=True)) / left_ms
        return Waiting(
            tenant=name,
            app=self.tuner.app(name),
            segments_ms=tuple(segments),
            left_ms=left_ms,
            age_ms=self._now - request.at_ms,
            target_ms=self.tuner.target_ms(name),
            weight=self.tuner.weights[name],
            need=need,
            reserved_parts=round(config.reserved * PARTS),
            most_parts=math.ceil(config.limit * PARTS),
            bandwidth=config.bandwidth,
        )

    def _share_out(self) -> None:
        """What is reserved first, as far as it can be filled; the rest goes down the order of rank."""
        order = sorted(self._runs, key=lambda name: (self._runs[name].rank, name))
        claims = {name: run.claim for name, run in self._runs.items()}
        needs = {name: self._fill(name, run) for name, run in self._runs.items()}
        held = freed(claims, needs, order, PARTS)
        for name in order:
            self._runs[name].held = held[name]
        for name in order:
            run = self._runs[name]
            run.room = min(1.0, run.held / (self._loads[name].need[run.at] * PARTS))
            run.rate = run.room * self._speed(name, run)
            if run.held != run.shown:
                self._show(name, run)
                run.shown = run.held

    def _fill(self, name: str, run: _Run) -> int:
        return min(run.most or PARTS, max(1, round(self._loads[name].need[run.at] * PARTS)))

    def _speed(self, name: str, run: _Run) -> float:
        """Equation 1 with the pairs' true rho."""
        speed = 1.0
        for other, their in self._runs.items():
            if other != name and their.held and run.held:
                speed *= 1.0 - self._rho(name, other) * phi(run.held / PARTS, their.held / PARTS)
        return speed

    def _rho(self, name: str, other: str) -> float:
        return true_rho(self.tuner.app(name).model, self.tuner.app(other).model)

    def _next_event(self) -> float:
        ends = [self._now + run.left_ms / run.rate for run in self._runs.values() if run.rate > 0.0]
        arrivals = [at for name, at in self._next.items() if self._loads[name].rate_per_s > 0.0]
        return max(self._now, min([*ends, *arrivals], default=np.inf))

    def _advance(self, until: float) -> None:
        span = until - self._now
        idle = PARTS - sum(run.held for run in self._runs.values())
        wanted = any(queue and name not in self._runs for name, queue in self._queues.items())
        if idle > 0 and wanted and span > EPS:
            self.record.add_bubble(Bubble(self._now, until, idle / PARTS))
        for run in self._runs.values():
            run.left_ms -= span * run.rate
            run.undisturbed_ms += span * run.room
        self._now = until

    def _finish(self) -> None:
        for name, run in list(self._runs.items()):
            if run.left_ms > EPS:
                continue
            run.at += 1
            if run.at < run.last:
                run.left_ms = self._loads[name].segments_ms[run.at]
                continue
            self._show(name, run)
            del self._runs[name]
            self._done(name, run)

    def _done(self, name: str, run: _Run) -> None:
        load, request = self._loads[name], self._queues[name][0]
        beside = [(other, their.held / PARTS) for other, their in self._runs.items() if their.held]
        alone_ms = sum(load.segments_ms[run.first : run.at])
        self.tuner.learn(name, beside, run.held / PARTS, alone_ms, run.undisturbed_ms)
        request.next = run.at
        if request.next < len(load.segments_ms):
            return
        self._queues[name].popleft()
        self.record.add_answer(name, Answered(self._now, self._now - request.at_ms))

    def _show(self, name: str, run: _Run) -> None:
        """Close the piece of the timeline that was drawn with the partitions held so far."""
        if run.shown > 0 and self._now - run.shown_ms > EPS:
            number, share = self._queues[name][0].number, run.shown / PARTS
            self.record.add_span(Span(name, number, run.first, run.at, run.shown_ms, self._now, share, run.squad))
        run.shown_ms = self._now


@functools.lru_cache(maxsize=4096)
def true_rho(model: str, other: str) -> float:
    """How much `other` slows `model` in this world: 0.03 to 0.15, as partitioned pairs were measured to do."""
    return 0.03 + 0.12 * (_number(f"{model}|{other}") % 1000) / 1000.0


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")
