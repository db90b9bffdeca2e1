"""A fleet of modelled replicas of one service in virtual time.

`run` builds one, plays it in control intervals and asks a scaler for the next replica count. Everything is seeded
by its inputs; nothing here draws a random number. A replica is billed from the moment it is asked for until its
drain is over.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from dure.sim.serving import kernel as k

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The router sees finished requests this often; steps take 20 to 130 ms.
SLICE_S = 0.2
# Who waits goes as it came, those past their promise last, or so that the fewest are late.
ORDERS = ("arrival", "deadline", "fewest-late")


class Engine(msgspec.Struct, frozen=True):
    """How fast one replica is; times in seconds. The defaults model a 7B model on one mid-range GPU."""

    base_s: float = 0.015
    prefill_s: float = 0.00015
    sequence_s: float = 0.00005
    cached_s: float = 0.0000005
    cache_tokens: int = 58_000
    budget_tokens: int = 512
    sequences: int = 256
    decode_s: float = 0.00128
    request_s: float = 0.020


class Promise(msgspec.Struct, frozen=True):
    """A request misses when its first token or its pace is later than this."""

    ttft_s: float = 2.0
    tpot_s: float = 0.1


class Requests(msgspec.Struct, frozen=True):
    """A request stream, sorted by arrival."""

    arrival_s: Floats
    context: Ints
    output: Ints
    horizon_s: float


class Reading(msgspec.Struct, frozen=True):
    """What monitoring knows after one interval; sums over the fleet, means over ready replicas."""

    now_s: float
    interval_s: float
    target: int
    ready: int
    booting: int
    billed: int
    waiting: int
    running: int
    utilization: float
    cache: float
    arrivals: int
    arrived_context: int
    waiting_tokens: float
    finished: int
    finished_output: int
    ttft_s: float
    tpot_s: float


class Outcome(msgspec.Struct, frozen=True):
    """What a whole run cost and missed."""

    requests: int
    misses: int
    ttft_misses: int
    tpot_misses: int
    gpu_hours: float
    changes: int
    reversals: int
    preempted: int

    @property
    def miss_rate(self) -> float:
        """Share of requests that missed either promise."""
        return self.misses / max(self.requests, 1)


class Service:
    """Mutable on purpose: arrays that the kernel plays on.

    With `drain_s` a replica that leaves gives away at once what it has not begun, and after so long the rest, which
    is computed again; without, it finishes all that it has.
    """

    def __init__(
        self,
        requests: Requests,
        engine: Engine,
        promise: Promise,
        boot_s: float,
        router: str = "requests",
        order: str = "arrival",
        limit: int = 192,
        mean_output: float = 200.0,
        drain_s: float | None = None,
    ) -> None:
        self.requests, self.engine, self.promise = requests, engine, promise
        self.boot_s, self.drain_s = boot_s, drain_s
        self.router, self.order = int(router == "tokens"), ORDERS.index(order)
        count = len(requests.arrival_s)
        self.ri = np.zeros((limit, 12), dtype=np.int64)
        for column in (k.PREFILL, k.HEAD, k.TAIL, k.LATE_HEAD, k.LATE_TAIL):
            self.ri[:, column] = -1
        self.rf = np.zeros((limit, 5))
        self.hk = np.zeros((limit, engine.sequences + 1), dtype=np.int64)
        self.hq = np.zeros((limit, engine.sequences + 1), dtype=np.int64)
        self.qi = np.zeros((count, 5), dtype=np.int64)
        self.qi[:, k.CONTEXT] = self.qi[:, k.CUR_CONTEXT] = np.clip(requests.context, 1, engine.cache_tokens // 2)
        self.qi[:, k.OUTPUT] = self.qi[:, k.LEFT] = np.clip(requests.output, 1, engine.cache_tokens // 4)
        self.qf = np.zeros((count, 3))
        self.qf[:, k.ARRIVAL] = requests.arrival_s
        self.cnt = np.zeros(9)
        self.par = np.array(
            [
                engine.base_s,
                engine.prefill_s,
                engine.sequence_s,
                engine.cached_s,
                engine.cache_tokens,
                engine.budget_tokens,
                engine.sequences,
                promise.ttft_s,
                engine.prefill_s,
                engine.decode_s * mean_output,
            ]
        )
        self.cursor, self.now_s, self.gpu_s = 0, 0.0, 0.0
        self.target = self.changes = self.reversals = self.last_move = 0
        self.counted_from_s = 0.0

    def start_with(self, replicas: int) -> None:
        """Replicas that are ready at time zero."""
        self.ri[:replicas, k.STATE] = k.READY
        self.target = replicas

    def count_from_now(self) -> None:
        """Forget cost and changes so far; requests that arrived before now do not count either."""
        self.gpu_s, self.changes, self.reversals, self.counted_from_s = 0.0, 0, 0, self.now_s

    def resize(self, target: int) -> None:
        """Ask for `target` replicas: boot new ones, or drain booting ones first and then the least loaded."""
        target = max(0, min(target, len(self.ri)))
        states = self.ri[:, k.STATE]
        alive = int(np.count_nonzero((states == k.BOOTING) | (states == k.READY)))
        if target != alive:
            move = 1 if target > alive else -1
            self.changes += 1
            self.reversals += int(move == -self.last_move)
            self.last_move = move
        self.target = target
        if target > alive:
            for r in np.flatnonzero(states == k.FREE)[: target - alive]:
                self.ri[r, k.STATE] = k.BOOTING
                self.rf[r, k.READY_AT] = self.now_s + self.boot_s
                self.rf[r, k.BUSY] = self.rf[r, k.WORK] = 0.0
        elif target < alive:
            self._drain(alive - target)

    def advance(self, seconds: float) -> Reading:
        """Play one interval and say what monitoring saw."""
        busy, counts, first = self.rf[:, k.BUSY].copy(), self.cnt.copy(), self.cursor
        end = self.now_s + seconds
        self.gpu_s += seconds * int(np.count_nonzero(self.ri[:, k.STATE]))
        arrays = (self.ri, self.rf, self.hk, self.hq, self.qi, self.qf, self.par, self.cnt)
        settings = (self.order, self.router, SLICE_S)
        self.cursor = int(k.advance(*arrays, self.cursor, end, *settings, self.now_s, self._used()))
        self.now_s = end
        return self._reading(seconds, busy, self.cnt - counts, first)

    def outcome(self) -> Outcome:
        """Play what is left without scaling, then count."""
        while self.cursor < len(self.qf) or bool(np.any(self.ri[:, k.LOAD] > 0)):
            if self.now_s > self.requests.horizon_s + 3600.0:
                break
            gpu_s = self.gpu_s
            self.advance(30.0)
            self.gpu_s = gpu_s
        first, done, arrival = self.qf[:, k.FIRST], self.qf[:, k.DONE], self.qf[:, k.ARRIVAL]
        late = (first == 0.0) | (first - arrival > self.promise.ttft_s)
        tokens = np.maximum(self.qi[:, k.OUTPUT] - 1, 1)
        slow = (done == 0.0) | ((done - first) / tokens > self.promise.tpot_s)
        slow &= (self.qi[:, k.OUTPUT] > 1) | (done == 0.0)
        counts = arrival >= self.counted_from_s
        return Outcome(
            requests=int(np.count_nonzero(counts)),
            misses=int(np.count_nonzero((late | slow) & counts)),
            ttft_misses=int(np.count_nonzero(late & counts)),
            tpot_misses=int(np.count_nonzero(slow & counts)),
            gpu_hours=self.gpu_s / 3600.0,
            changes=self.changes,
            reversals=self.reversals,
            preempted=int(self.cnt[k.PREEMPTED]),
        )

    def _used(self) -> int:
        """One past the last replica slot in use, so that the kernel skips the empty rest."""
        return int(np.flatnonzero(self.ri[:, k.STATE])[-1]) + 1 if np.any(self.ri[:, k.STATE]) else 0

    def _drain(self, count: int) -> None:
        states = self.ri[:, k.STATE]
        booting = np.flatnonzero(states == k.BOOTING)
        newest = booting[np.argsort(-self.rf[booting, k.READY_AT], kind="stable")][:count]
        self.ri[newest, k.STATE] = k.FREE
        left = count - len(newest)
        if left <= 0:
            return
        ready = np.flatnonzero(self.ri[:, k.STATE] == k.READY)
        idlest = ready[np.argsort(self.ri[ready, k.LOAD], kind="stable")][:left]
        self.ri[idlest, k.STATE] = k.DRAINING
        if self.drain_s is None:
            self.rf[idlest, k.LEAVE_AT] = math.inf
            return
        self.rf[idlest, k.LEAVE_AT] = self.now_s + self.drain_s
        for r in idlest:
            k.move_waiting(self.ri, self.rf, self.qi, self.qf, self.par, self.cnt, r, self.router, self._used())

    def _reading(self, seconds: float, busy: Floats, counts: Floats, first: int) -> Reading:
        states = self.ri[:, k.STATE]
        serving = states == k.READY
        ready = int(np.count_nonzero(serving))
        alive = states >= k.READY
        waiting = int(self.ri[alive, k.WAITING].sum())
        spent = float((self.rf[serving, k.BUSY] - busy[serving]).sum())
        return Reading(
            now_s=self.now_s,
            interval_s=seconds,
            target=self.target,
            ready=ready,
            booting=int(np.count_nonzero(states == k.BOOTING)),
            billed=int(np.count_nonzero(states)),
            waiting=waiting,
            running=int(self.ri[alive, k.LOAD].sum()) - waiting,
            utilization=min(spent / (seconds * ready), 1.0) if ready else 0.0,
            cache=float(self.ri[serving, k.KV].sum()) / (self.engine.cache_tokens * ready) if ready else 0.0,
            arrivals=self.cursor - first,
            arrived_context=int(self.qi[first : self.cursor, k.CONTEXT].sum()),
            waiting_tokens=float(max(self.cnt[k.WAIT_TOKENS], 0.0)),
            finished=int(counts[k.DONE_N]),
            finished_output=int(counts[k.OUT_SUM]),
            ttft_s=float(counts[k.TTFT_SUM] / counts[k.TTFT_N]) if counts[k.TTFT_N] else 0.0,
            tpot_s=float(counts[k.TPOT_SUM] / counts[k.TPOT_N]) if counts[k.TPOT_N] else 0.0,
        )
