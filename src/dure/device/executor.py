"""The loop of a real device: whenever threads are free, form a squad of waiting tenants and let it run.

One thread owns all state; callers hand in requests and get futures. There is no barrier between squads: a tenant that
ends its part frees its threads at once for the next squad, and a change of policy applies to the next squad. `mode`
other than squads exists for comparison: `threads` starts everything at once, `turns` one whole request at a time.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Literal

import msgspec
import structlog

from dure.adapters.nvidia.cuda import Gpu
from dure.adapters.pieces import Share
from dure.device.config import DeviceConfig, TenantConfig, known_policies
from dure.device.ears import Ears
from dure.device.entry import Entry, Scaling, turned_away
from dure.device.foreign import failed
from dure.device.idle import Idle
from dure.device.lane import START_MS, Lane, Lost
from dure.device.pace import Pace
from dure.device.post import Letter, Post
from dure.device.queues import Queues
from dure.device.record import Record, Span, SquadRun
from dure.device.request import Request, Running
from dure.device.rows import Rows, Scene, may_rank
from dure.device.stage import Stage
from dure.device.target import shape_of, widest, work_of
from dure.device.tuning import Spoken, Tuner
from dure.model.errors import Conflict, DureError, InvalidInput, Temporary
from dure.share.interference import App
from dure.share.promise import Answered
from dure.share.squad import Member, SquadSettings, Waiting, form

log = structlog.get_logger("dure.device")
MOST_SEGMENTS = 64
CONTENDED_MS = 5.0
"""A member's part of a squad while others wait: short, so that the order can change soon."""
CALM_MS = 40.0
"""The same while everyone who waits can run: long, since every hand-over costs a context switch."""

Mode = Literal["squads", "threads", "turns"]


class Executor:
    """Runs tenants' requests until `close`. Safe to call from many threads."""

    def __init__(
        self,
        config: DeviceConfig,
        mode: Mode = "squads",
        spoken: Spoken | None = None,
        processors: frozenset[int] = frozenset(),
        gpu: Gpu | None = None,
    ) -> None:
        self.config = config
        self.gpu = gpu
        self.cores, self.exclusive, self.unit = shape_of(config, gpu)
        self.record = Record()
        self.overhead_ms = 0.0
        self.dispatched = 0
        self._mode: Mode = mode
        self._policies = known_policies()
        self._started = time.perf_counter()
        self._lock = threading.Lock()
        self._queues = Queues(t.name for t in config.tenants)
        self._squads = 0
        self.tuner = Tuner(config, self.record, spoken)
        self._entry = Entry(config, lambda: self.tuner.book)
        self._pace = Pace(self.cores)
        for one in config.tenants:
            self._pace.come(one, 0.0)
        self._processors = processors
        self._ears = Ears()
        self._post = Post()
        self._idle = Idle(self.record)
        self._lanes = {t.name: self._lane(t) for t in config.tenants}
        self._stage = Stage(self.cores, self._lanes, self._pace, self.now_ms, stops=gpu is None)
        second_row = config.second_row and gpu is None and mode == "squads" and may_rank()
        self._rows = Rows(self.cores, self._stage, self._pace, self._stretch) if second_row else None
        self._loading = {t.name: self.now_ms() for t in config.tenants}
        self._orders: deque[Callable[[], None]] = deque()
        self._awaited: dict[str, Future[None]] = {}
        self._stopping = False
        self._warm_up()
        self._thread = threading.Thread(target=self._loop, name="dure-device", daemon=True)
        self._thread.start()

    def now_ms(self) -> float:
        return (time.perf_counter() - self._started) * 1000.0

    def submit(self, tenant: str, inputs: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """Queue a request; its future holds the outputs, or `Temporary` if the tenant's process failed it."""
        if tenant in self._entry.refused:
            raise turned_away(tenant, self._entry.refused[tenant])
        request = self._queues.add(tenant, inputs, self.now_ms())
        self._ears.ring()
        return request.future

    def come(self, tenant: TenantConfig) -> Future[None]:
        """A tenant comes while the device runs. Done when its model is loaded; `NotAllowed` if it is turned away."""
        told: Future[None] = Future()
        self._order(lambda: self._take_in(tenant, told))
        return told

    def go(self, name: str) -> Future[None]:
        """A tenant leaves: its process ends now, its threads and memory are free, its requests fail."""
        done: Future[None] = Future()
        self._order(lambda: self._let_go(name, done))
        return done

    def set_aside(self) -> dict[str, str]:
        """Policies of other packages that failed, and why."""
        return {name: why for name, rank in self._policies.items() if (why := failed(rank))}

    def set_policy(self, name: str) -> None:
        """Use this policy, or `auto`, from the next squad on."""
        self.tuner.set_policy(name, self._policies)

    @property
    def parts(self) -> int:
        return self.cores

    def refused(self) -> dict[str, str]:
        """Tenants that were not let in, and why."""
        return self._entry.refused

    def scheduler_us(self) -> float:
        """Processor time of the scheduler for each segment so far."""
        return 1000.0 * self.overhead_ms / max(self.dispatched, 1)

    def ready(self) -> bool:
        """Every tenant's model is loaded and somebody asks them."""
        return self._thread.is_alive() and all(
            lane.segments_ms or name in self._entry.refused for name, lane in self._lanes.items()
        )

    def starts(self, tenant: str) -> int:
        """How often the tenant's process was started."""
        lane = self._lanes.get(tenant)
        return lane.starts if lane is not None else 0

    def need(self, tenant: str) -> float:
        """The part of the device that one tenant fills: squads count on one thread each, on a GPU as measured."""
        return 1.0 / self.cores if self.gpu is None else self._entry.fills(tenant, self.cores)

    def process_id(self, tenant: str) -> int:
        """The tenant's process, for tools that watch it."""
        return self._lanes[tenant].process_id

    @property
    def stopped(self) -> int:
        """How often somebody was stopped in mid-piece for another."""
        return self._stage.stopped

    def waiting(self) -> dict[str, int]:
        return self._queues.inside()

    def close(self) -> None:
        """Stop; requests still waiting fail with `Temporary`."""
        with self._lock:
            self._stopping = True
        self._ears.ring()
        self._thread.join(10.0)
        for lane in self._lanes.values():
            lane.stop()
        self._send_letters(math.inf)
        for request in self._queues.close():
            request.fail("the device was shut down")

    def _loop(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:
            # A fault of ours, not of a tenant: nobody may wait for an answer that no one will give.
            log.exception("the device has stopped", error=str(error))
            self._stopping = True
            why = Temporary(
                f"the device has stopped: {error}", remedy="Start dure device run again; its log says why."
            )
            for request in self._queues.close():
                request.fail(why)
            for told in self._awaited.values():
                told.set_exception(why)

    def _turn(self) -> None:
        while self._orders:
            self._orders.popleft()()
        self._dispatch()
        self._send_letters(self.now_ms())
        for name in self._ears.listen(self._patience_s()):
            self._heard(name)
        self._end_hung()
        now = self.now_ms()
        if self.tuner.due(now):
            self.tuner.tick(now, self.waiting())

    def _order(self, order: Callable[[], None]) -> None:
        """Have something done by the thread that owns the state."""
        with self._lock:
            if self._stopping:
                raise Temporary("the device is shutting down")
            self._orders.append(order)
        self._ears.ring()

    def _take_in(self, tenant: TenantConfig, told: Future[None]) -> None:
        if tenant.name in self._lanes:
            told.set_exception(Conflict(f"there is a tenant '{tenant.name}' already"))
            return
        self._awaited[tenant.name] = told
        self._entry.come(tenant)
        self._pace.come(tenant, self.now_ms())
        self._lanes[tenant.name] = self._lane(tenant)
        self._loading[tenant.name] = self.now_ms()
        self._change((*self.config.tenants, tenant))
        self._queues.come(tenant.name)

    def _lane(self, tenant: TenantConfig) -> Lane:
        return Lane(tenant, work_of(tenant, self.cores, self.gpu), self._ears, self._processors)

    def _let_go(self, name: str, done: Future[None]) -> None:
        if name in self._lanes:
            self._stage.forget(name)
            left = Temporary(f"tenant '{name}' has left the device")
            self._fail_all(name, left)
            for late in self._queues.go(name):
                late.fail(left)
            self._change(tuple(one for one in self.config.tenants if one.name != name))
            self._lanes.pop(name).retire()
            self._entry.go(name)
            self._pace.go(name)
            self._answer_awaited(name, Temporary("it left before its model was loaded"))
        done.set_result(None)

    def _change(self, tenants: tuple[TenantConfig, ...]) -> None:
        """The same device with other tenants; what was learnt of those that stay is kept."""
        self.config = msgspec.structs.replace(self.config, tenants=tenants)
        tuner = Tuner(self.config, self.record, self.tuner.spoken)
        tuner.inherit(self.tuner)
        self.tuner = tuner

    def _answer_awaited(self, name: str, why: DureError | None = None) -> None:
        told = self._awaited.pop(name, None)
        if told is not None and why is not None:
            told.set_exception(why)
        elif told is not None:
            told.set_result(None)

    def _warm_up(self) -> None:
        """Let every policy compile before the first request has to wait for it."""
        idle = Waiting("", App(""), (1.0,), 1.0, 0.0, 1.0)
        for name, rank in self._policies.items():
            form([idle, idle], name, rank, self.tuner.book)

    def _dispatch(self) -> None:
        began = time.thread_time()
        heads = {n: request for n, request in self._queues.heads().items() if self._may_run(n)}
        members = self._members(heads) if heads or self._stage.behind else ()
        behind = self._fillers(heads, members)
        self.overhead_ms += (time.thread_time() - began) * 1000.0
        self.dispatched += sum(member.segments for member in (*members, *behind))
        for member in members:
            self._send(member, tuple((m.tenant, m.parts / self.cores) for m in members if m is not member))
        for member in behind:
            self._send(member, (), behind=True)
        self._stage.hold()
        self._idle.note(self.now_ms(), self._unused())

    def _unused(self) -> float:
        """The part of the device that is free although somebody who waits could run on it."""
        free = self._stage.free()
        held_up = free > 0 and any(
            name not in self._stage.paused and self._may_run(name) for name in self._queues.heads()
        )
        return free / self.cores if held_up else 0.0

    def _members(self, heads: dict[str, Request]) -> tuple[Member, ...]:
        if self._mode != "squads":
            return self._naive(heads)
        inside = self._queues.inside()
        waits = {n: inside[n] for n in heads}
        self._stage.make_room(waits, inside)
        chosen = self._pace.first(waits, self._stage.free())
        for name in sorted(chosen & self._stage.paused.keys()):
            self._stage.resume(name)
        chosen -= self._stage.running.keys()
        waiting = [self._waiting(name, heads[name]) for name in sorted(chosen)]
        policy = self.tuner.policy
        rank = self._policies[policy]
        if self._rows is not None:
            self._rows.arrange(Scene(waiting, self._inside, rank, self.now_ms()))
        free = self._stage.free()
        if free <= 0 or not chosen:
            return ()
        most_ms = CONTENDED_MS if len(heads) + len(self._stage.behind) > free else CALM_MS
        settings = SquadSettings(free, MOST_SEGMENTS, most_ms, self.exclusive)
        squad = form(waiting, policy, rank, self.tuner.book, settings)
        self._squads += 1
        members = tuple((m.tenant, m.segments, m.parts) for m in squad.members)
        self.record.add_squad(SquadRun(self._squads, self.now_ms(), policy, members, squad.predicted_ms))
        return squad.members

    def _fillers(self, heads: dict[str, Request], members: tuple[Member, ...]) -> tuple[Member, ...]:
        """Those who begin in the second row: a short piece of one thread each, as there is seldom more left."""
        taken = {member.tenant for member in members} | self._stage.paused.keys() | self._stage.running.keys()
        left = [name for name in heads if name not in taken]
        if self._rows is None or not left:
            return ()
        policy = self.tuner.policy
        rank = self._policies[policy]
        chosen = self._rows.fillers([self._waiting(name, heads[name]) for name in left], rank)
        settings = SquadSettings(1, MOST_SEGMENTS, CONTENDED_MS)
        return tuple(m for one in chosen for m in form([one], policy, rank, self.tuner.book, settings).members)

    def _inside(self, name: str) -> Waiting:
        return self._waiting(name, self._queues.head(name))

    def _naive(self, heads: dict[str, Request]) -> tuple[Member, ...]:
        if self._mode == "turns" and self._stage.running:
            return ()
        names = sorted(heads, key=lambda n: heads[n].at_ms)[: 1 if self._mode == "turns" else None]
        self._squads += 1
        return tuple(Member(n, 0, len(self._lanes[n].segments_ms), self.cores) for n in names)

    def _may_run(self, name: str) -> bool:
        loaded = bool(self._lanes[name].segments_ms) and name in self._entry.verdicts
        at_work = name in self._stage.running or name in self._stage.behind
        return loaded and not at_work and self._pace.wait_ms(name, self.now_ms()) <= 0.0

    def _waiting(self, name: str, request: Request) -> Waiting:
        segments = self.tuner.predicted(name, self._lanes[name].segments_ms)[request.next :]
        config = self._lanes[name].config
        limits = (self._pace.most_parts(name), widest(config, self.gpu))
        return Waiting(
            tenant=name,
            app=self.tuner.app(name),
            segments_ms=tuple(segments),
            left_ms=sum(segments),
            age_ms=self.now_ms() - request.at_ms,
            target_ms=self.tuner.target_ms(name),
            weight=self.tuner.weights[name],
            need=self.need(name),
            reserved_parts=round(config.reserved * self.cores),
            most_parts=min((most for most in limits if most), default=0),
            bandwidth=config.bandwidth,
        )

    def _stretch(self, name: str, parts: int) -> float:
        return self._entry.stretch(name, parts / self.cores)

    def _send(self, member: Member, fellows: tuple[tuple[str, float], ...], *, behind: bool = False) -> None:
        request = self._queues.head(member.tenant)
        last = request.next + member.segments
        share: Share = member.parts
        spot = None
        if self.gpu is not None:
            share = spot = self._stage.spot(member)
            member = msgspec.structs.replace(member, parts=spot.parts)
        known = {name for name, _ in fellows}
        others = ((n, r.member.parts / self.cores) for n, r in self._stage.running.items() if n not in known)
        neighbours = (*fellows, *others)
        run = Running(member, self._squads, self.now_ms(), request.next, neighbours, spot)
        self._stage.begin(member.tenant, run, behind=behind)
        message = ("run", request.number, request.inputs, request.next, last, share)
        request.inputs = None
        lost = self._lanes[member.tenant].send(message)
        if lost is not None:
            self._lose(member.tenant, lost.why)

    def _heard(self, name: str) -> None:
        if self._lanes[name].retired:
            # What another one said just now has ended it.
            return
        message = self._lanes[name].receive()
        if isinstance(message, Lost):
            self._lose(name, message.why)
            return
        if message[0] == "profile":
            # Said after a piece, when the next may have begun.
            return
        self._stage.heard(name)
        if message[0] == "done":
            self._done(name, message)
        elif message[0] == "failed":
            self._stage.forget(name)
            self._fail_head(name, Temporary(message[2], remedy="The tenant's process goes on; try again."))
        elif message[0] == "refused":
            self._stage.forget(name)
            self._refuse_head(name, InvalidInput(message[2], where=f"tenant {name}"))
        elif message[0] == "broken":
            self._broken(name, message[1])
        elif message[0] == "ready":
            self._loading.pop(name, None)
            self._measured(name, Scaling(message[2], sum(message[1]), self.cores))

    def _broken(self, name: str, why: str) -> None:
        """Its model cannot be loaded. At the first start that keeps it out, so that nobody waits for its verdict."""
        self._loading.pop(name, None)
        if name not in self._entry.verdicts:
            self._lanes[name].retire()
        self._measured(name, why)

    def _measured(self, name: str, scaling: Scaling | str) -> None:
        """Only the first start counts: a tenant that was let in stays, however its process fares."""
        if name in self._entry.verdicts:
            return
        before = set(self._entry.verdicts)
        for away in self._entry.measured(name, scaling):
            self._lanes[away].retire()
            self._fail_all(away, turned_away(away, self._entry.refused[away]))
            self._answer_awaited(away, turned_away(away, self._entry.refused[away]))
        for judged in self._entry.verdicts.keys() - before:
            self._answer_awaited(judged)

    def _done(self, name: str, message: tuple[Any, ...]) -> None:
        _, _, last, spent_ms, outputs, waited_ms, ran_ms = message
        run = self._stage.running.pop(name)
        now = self.now_ms()
        # One that was told to stop while it waited for its processor did both at once; it used what it ran at least.
        used_ms = max(ran_ms, spent_ms - waited_ms - run.paused_ms)
        request = self._queues.head(name)
        share = run.member.parts / self.cores
        # What it had of the device behind others is drawn as if it had had it in the end.
        start_ms = max(run.start_ms, now - used_ms) if run.behind_ms else run.start_ms
        self.record.add_span(Span(name, request.number, run.first, last, start_ms, now, share, run.squad, used_ms))
        alone = sum(self._lanes[name].segments_ms[run.first : last])
        if not run.behind_ms:
            self.tuner.learn(name, run.neighbours, share, alone * self._entry.stretch(name, share), used_ms)
        self._pace.spend(name, now, run.member.parts, now - run.since_ms, used_ms)
        request.next = last
        if outputs is None:
            return
        self._queues.take(name)
        left = self._queues.count(name)
        letter = Letter(name, request, outputs, now)
        if not (self._pace.shares(name) and self._post.holds(letter, left)):
            self._hand_out(letter)

    def _send_letters(self, now_ms: float) -> None:
        for letter in self._post.due(now_ms, self._queues.heads()):
            self._hand_out(letter)

    def _hand_out(self, letter: Letter) -> None:
        now = self.now_ms()
        self.record.add_answer(letter.tenant, Answered(now, now - letter.request.at_ms))
        letter.request.future.set_result(letter.outputs)

    def _end_hung(self) -> None:
        now = self.now_ms()
        for name, run in list(self._stage.running.items()):
            limit = self._lanes[name].config.timeout_ms
            if run.ran_ms(now) > limit:
                self._lose(name, f"no answer for {limit:.0f} ms")
        for name, since in list(self._loading.items()):
            if now - since > START_MS:
                self._lose(name, f"model not loaded after {START_MS:.0f} ms")

    def _lose(self, name: str, why: str) -> None:
        """The tenant's process failed: its request fails, it starts anew, nobody else notices."""
        if name not in self._entry.verdicts:
            self._broken(name, why)
            return
        self._stage.forget(name)
        self._fail_head(name, why)
        self._lanes[name].restart()
        self._loading[name] = self.now_ms()

    def _fail_head(self, name: str, why: str | DureError) -> None:
        request = self._queues.take(name)
        if request is not None:
            self.record.add_answer(name, Answered(self.now_ms(), self.now_ms() - request.at_ms, ok=False))
            request.fail(why)

    def _refuse_head(self, name: str, why: InvalidInput) -> None:
        """The caller's mistake: it does not count against the tenant's promise."""
        request = self._queues.take(name)
        if request is not None:
            request.fail(why)

    def _fail_all(self, name: str, why: DureError) -> None:
        self._loading.pop(name, None)
        while self.waiting()[name]:
            self._fail_head(name, why)

    def _patience_s(self) -> float:
        limits = [self._lanes[n].config.timeout_ms for n in self._stage.running]
        now = self.now_ms()
        held_up = [n for n in self._queues.heads() if n not in self._stage.running]
        waits = [wait for n in held_up if (wait := self._pace.wait_ms(n, now)) > 0.0]
        letter_ms = self._post.wait_ms(now)
        return min([*limits, *waits, 1000.0 if letter_ms is None else letter_ms, 1000.0]) / 1000.0
