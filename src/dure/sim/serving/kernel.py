"""The inner loop of the modelled serving engine: continuous batching on many replicas.

Called by `service` once per control interval. One engine step lasts base + prefill + sequences + cached tokens, runs
a token budget of chunked prefill beside one token for each decoding sequence, and preempts by recomputation when
the cache is full. Steps in which nothing can change are taken in one leap, so the cost follows requests, not time.
Arrays: `ri`, `rf` integer and float state by replica; `hk`, `hq` a heap of finishing steps and their requests by
replica; `qi`, `qf` the request tables; `par` engine parameters; `cnt` counters.
"""

from __future__ import annotations

from typing import Any

from numba import njit

STATE, NDEC, STEP, KV, PREFILL, PREFILL_LEFT, HEAD, TAIL, LATE_HEAD, LATE_TAIL, LOAD, WAITING = range(12)
CLOCK, READY_AT, BUSY, WORK, LEAVE_AT = range(5)
FREE, BOOTING, READY, DRAINING = range(4)
CONTEXT, OUTPUT, CUR_CONTEXT, LEFT, NEXT = range(5)
ARRIVAL, FIRST, DONE = range(3)
BASE, PER_PREFILL, PER_SEQUENCE, PER_CACHED, CACHE, BUDGET, SEQUENCES, TTFT, W_PREFILL, W_DECODE = range(10)
ARRIVED, IN_TIME, FEWEST_LATE = range(3)
TTFT_SUM, TTFT_N, TPOT_SUM, TPOT_N, OUT_SUM, DONE_N, PREEMPTED, WAIT_TOKENS, MOVED = range(9)


@njit(cache=True)
def advance(
    ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, cursor: Any, until: Any, order: Any,
    router: Any, slice_s: Any, start: Any, used: Any,
) -> Any:  # fmt: skip
    """Play from `start` to `until`; returns the index of the first request that has not arrived."""
    now = start
    while now < until - 1e-9:
        end = min(now + slice_s, until)
        for r in range(used):
            if ri[r, STATE] == BOOTING and rf[r, READY_AT] <= now:
                ri[r, STATE] = READY
                rf[r, CLOCK] = now
        while cursor < qf.shape[0] and qf[cursor, ARRIVAL] < end:
            r = _route(ri, rf, router, used)
            if r < 0:
                break
            _enqueue(ri, rf, qi, par, cnt, r, cursor)
            cursor += 1
        for r in range(used):
            if ri[r, STATE] >= READY:
                if ri[r, STATE] == DRAINING and rf[r, LEAVE_AT] <= now:
                    _move_all(ri, rf, hk, hq, qi, qf, par, cnt, r, router, used)
                _play(ri, rf, hk, hq, qi, qf, par, cnt, r, end, order)
                if ri[r, STATE] == DRAINING and ri[r, LOAD] == 0:
                    ri[r, STATE] = FREE
        now = end
    return cursor


@njit(cache=True)
def _route(ri: Any, rf: Any, router: Any, used: Any) -> Any:
    """Fewest requests (0) or least outstanding work (1) among ready replicas; the first of equals."""
    best, least = -1, 1e300
    for r in range(used):
        if ri[r, STATE] == READY:
            cost = float(ri[r, LOAD]) if router == 0 else rf[r, WORK]
            if cost < least:
                best, least = r, cost
    return best


@njit(cache=True)
def _enqueue(ri: Any, rf: Any, qi: Any, par: Any, cnt: Any, r: Any, q: Any) -> None:
    _push_tail(ri, qi, r, q, False)
    ri[r, LOAD] += 1
    ri[r, WAITING] += 1
    cnt[WAIT_TOKENS] += qi[q, CONTEXT]
    rf[r, WORK] += par[W_PREFILL] * qi[q, CONTEXT] + par[W_DECODE]


@njit(cache=True)
def _push_tail(ri: Any, qi: Any, r: Any, q: Any, late: Any) -> None:
    head = LATE_HEAD if late else HEAD
    tail = LATE_TAIL if late else TAIL
    qi[q, NEXT] = -1
    if ri[r, tail] >= 0:
        qi[ri[r, tail], NEXT] = q
    else:
        ri[r, head] = q
    ri[r, tail] = q


@njit(cache=True)
def _pop_head(ri: Any, qi: Any, r: Any, late: Any) -> Any:
    head = LATE_HEAD if late else HEAD
    tail = LATE_TAIL if late else TAIL
    q = ri[r, head]
    ri[r, head] = qi[q, NEXT]
    if ri[r, head] < 0:
        ri[r, tail] = -1
    return q


@njit(cache=True)
def _next(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, r: Any, order: Any) -> Any:
    """1 the on-time queue has one to admit, 2 the late queue, 0 none has arrived."""
    now = rf[r, CLOCK]
    if order == FEWEST_LATE:
        _put_aside(ri, rf, qi, qf, par, r)
    elif order == IN_TIME:
        while ri[r, HEAD] >= 0:
            q = ri[r, HEAD]
            if qf[q, FIRST] > 0.0 or now - qf[q, ARRIVAL] <= par[TTFT]:
                break
            _pop_head(ri, qi, r, False)
            _push_tail(ri, qi, r, q, True)
    if ri[r, HEAD] >= 0 and qf[ri[r, HEAD], ARRIVAL] <= now:
        return 1
    return 2 if ri[r, LATE_HEAD] >= 0 else 0


@njit(cache=True)
def _put_aside(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, r: Any) -> None:
    """Until all who wait can have their first token in time, the longest prompt before one that cannot goes to the
    late queue: the fewest possible are late (Moore 1968). Who has had its first token stays where it is."""
    now = rf[r, CLOCK]
    step = par[BASE] + par[PER_SEQUENCE] * ri[r, NDEC] + par[PER_CACHED] * ri[r, KV]
    token = par[PER_PREFILL] + step / max(par[BUDGET] - ri[r, NDEC], 1.0)
    at, before, q = now, -1, ri[r, HEAD]
    longest, longest_before = -1, -1
    while q >= 0 and qf[q, ARRIVAL] <= now:
        at += token * qi[q, CUR_CONTEXT]
        if qf[q, FIRST] == 0.0:
            if longest < 0 or qi[q, CUR_CONTEXT] > qi[longest, CUR_CONTEXT]:
                longest, longest_before = q, before
            if at - qf[q, ARRIVAL] > par[TTFT]:
                _unlink(ri, qi, r, longest, longest_before)
                _push_tail(ri, qi, r, longest, True)
                at, before, q = now, -1, ri[r, HEAD]
                longest, longest_before = -1, -1
                continue
        before, q = q, qi[q, NEXT]


@njit(cache=True)
def _unlink(ri: Any, qi: Any, r: Any, q: Any, before: Any) -> None:
    """Take one out of the middle of the on-time queue; `before` stands in front of it (-1: nobody)."""
    if before < 0:
        ri[r, HEAD] = qi[q, NEXT]
    else:
        qi[before, NEXT] = qi[q, NEXT]
    if ri[r, TAIL] == q:
        ri[r, TAIL] = before


@njit(cache=True)
def _play(
    ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, end: Any, order: Any
) -> None:
    """Run one replica until its clock reaches `end`."""
    while rf[r, CLOCK] < end:
        if ri[r, NDEC] == 0 and ri[r, PREFILL] < 0:
            which = _next(ri, rf, qi, qf, par, r, order)
            if which == 0:
                head = ri[r, HEAD]
                if head < 0:
                    rf[r, CLOCK] = end
                    return
                rf[r, CLOCK] = max(rf[r, CLOCK], qf[head, ARRIVAL])
                continue
        tokens = _prefill(ri, rf, qi, qf, par, cnt, r, order)
        if tokens == 0 and ri[r, PREFILL] < 0:
            _leap(ri, rf, hk, hq, qi, qf, par, cnt, r, end)
        else:
            _step(ri, rf, hk, hq, qi, qf, par, cnt, r, tokens)


@njit(cache=True)
def _prefill(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, order: Any) -> Any:
    """Admit while the first prompt fits; returns the prefill tokens of this step (one prompt at a time)."""
    budget = int(par[BUDGET]) - ri[r, NDEC]
    if budget <= 0:
        return 0
    if ri[r, PREFILL] < 0:
        which = _next(ri, rf, qi, qf, par, r, order)
        if which == 0 or ri[r, NDEC] >= par[SEQUENCES]:
            return 0
        q = ri[r, HEAD] if which == 1 else ri[r, LATE_HEAD]
        if ri[r, KV] + qi[q, CUR_CONTEXT] + ri[r, NDEC] > par[CACHE] and ri[r, NDEC] > 0:
            return 0
        _pop_head(ri, qi, r, which == 2)
        ri[r, WAITING] -= 1
        cnt[WAIT_TOKENS] -= qi[q, CUR_CONTEXT]
        ri[r, PREFILL] = q
        ri[r, PREFILL_LEFT] = qi[q, CUR_CONTEXT]
        ri[r, KV] += qi[q, CUR_CONTEXT]
    return min(budget, ri[r, PREFILL_LEFT])


@njit(cache=True)
def _step(ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, tokens: Any) -> None:
    """One engine step with `tokens` of prefill."""
    n = ri[r, NDEC]
    lasts = par[BASE] + par[PER_PREFILL] * tokens + par[PER_SEQUENCE] * n + par[PER_CACHED] * ri[r, KV]
    rf[r, CLOCK] += lasts
    rf[r, BUSY] += lasts
    _decode(ri, rf, hk, hq, qi, qf, par, cnt, r, 1)
    if ri[r, PREFILL] < 0:
        return
    ri[r, PREFILL_LEFT] -= tokens
    if ri[r, PREFILL_LEFT] > 0:
        return
    q = ri[r, PREFILL]
    ri[r, PREFILL] = -1
    rf[r, WORK] -= par[W_PREFILL] * qi[q, CUR_CONTEXT]
    if qf[q, FIRST] == 0.0:
        qf[q, FIRST] = rf[r, CLOCK]
        cnt[TTFT_SUM] += qf[q, FIRST] - qf[q, ARRIVAL]
        cnt[TTFT_N] += 1
    qi[q, LEFT] -= 1
    if qi[q, LEFT] <= 0:
        _finish(ri, rf, qi, qf, par, cnt, r, q)
        return
    _heap_push(hk, hq, r, ri[r, NDEC], ri[r, STEP] + qi[q, LEFT], q)
    ri[r, NDEC] += 1


@njit(cache=True)
def _leap(ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, end: Any) -> None:
    """Many decode-only steps at once: up to the next finish, a full cache, or the end of the slice."""
    n = ri[r, NDEC]
    one = par[BASE] + par[PER_SEQUENCE] * n + par[PER_CACHED] * ri[r, KV]
    stop = end
    if ri[r, HEAD] >= 0 and qf[ri[r, HEAD], ARRIVAL] > rf[r, CLOCK]:
        stop = min(stop, qf[ri[r, HEAD], ARRIVAL])
    steps = min(hk[r, 0] - ri[r, STEP], int((stop - rf[r, CLOCK]) / one) + 1)
    room = (int(par[CACHE]) - ri[r, KV]) // n
    steps = max(1, min(steps, room))
    lasts = steps * one + par[PER_CACHED] * n * steps * (steps - 1) / 2.0
    rf[r, CLOCK] += lasts
    rf[r, BUSY] += lasts
    _decode(ri, rf, hk, hq, qi, qf, par, cnt, r, steps)


@njit(cache=True)
def _decode(ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, steps: Any) -> None:
    """Every sequence grows by `steps` tokens; finished ones leave, one is preempted while the cache is over-full."""
    ri[r, STEP] += steps
    ri[r, KV] += steps * ri[r, NDEC]
    while ri[r, NDEC] > 0 and hk[r, 0] <= ri[r, STEP]:
        q = hq[r, 0]
        ri[r, NDEC] -= 1
        _heap_pop(hk, hq, r, ri[r, NDEC])
        _finish(ri, rf, qi, qf, par, cnt, r, q)
    while ri[r, KV] > par[CACHE] and ri[r, NDEC] > 1:
        _preempt(ri, rf, hk, hq, qi, qf, par, cnt, r)


@njit(cache=True)
def _finish(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, q: Any) -> None:
    qf[q, DONE] = rf[r, CLOCK]
    ri[r, KV] -= qi[q, CONTEXT] + qi[q, OUTPUT] - 1
    ri[r, LOAD] -= 1
    rf[r, WORK] -= par[W_DECODE]
    cnt[OUT_SUM] += qi[q, OUTPUT]
    cnt[DONE_N] += 1
    if qi[q, OUTPUT] > 1:
        cnt[TPOT_SUM] += (qf[q, DONE] - qf[q, FIRST]) / (qi[q, OUTPUT] - 1)
        cnt[TPOT_N] += 1


@njit(cache=True)
def _preempt(ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any) -> None:
    """The youngest sequence gives up its cache and will be computed again."""
    victim = 0
    for i in range(1, ri[r, NDEC]):
        if qf[hq[r, i], ARRIVAL] > qf[hq[r, victim], ARRIVAL]:
            victim = i
    q = hq[r, victim]
    left = hk[r, victim] - ri[r, STEP]
    ri[r, NDEC] -= 1
    _heap_remove(hk, hq, r, victim, ri[r, NDEC])
    made = qi[q, OUTPUT] - left
    ri[r, KV] -= qi[q, CONTEXT] + made - 1
    qi[q, LEFT] = left
    qi[q, CUR_CONTEXT] = qi[q, CONTEXT] + made - 1
    rf[r, WORK] += par[W_PREFILL] * qi[q, CUR_CONTEXT]
    qi[q, NEXT] = ri[r, HEAD]
    ri[r, HEAD] = q
    if ri[r, TAIL] < 0:
        ri[r, TAIL] = q
    ri[r, WAITING] += 1
    cnt[WAIT_TOKENS] += qi[q, CUR_CONTEXT]
    cnt[PREEMPTED] += 1


@njit(cache=True)
def _move_all(
    ri: Any, rf: Any, hk: Any, hq: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, router: Any, used: Any
) -> None:
    """All that a replica has goes to others of its service and is computed again there, prompt and tokens so far.

    Stays where it is while no other is ready.
    """
    move_waiting(ri, rf, qi, qf, par, cnt, r, router, used)
    if _route(ri, rf, router, used) < 0:
        return
    if ri[r, PREFILL] >= 0:
        q = ri[r, PREFILL]
        ri[r, PREFILL] = -1
        ri[r, KV] -= qi[q, CUR_CONTEXT]
        rf[r, WORK] -= par[W_PREFILL] * qi[q, CUR_CONTEXT]
        _move(ri, rf, qi, qf, par, cnt, r, q, router, used)
    while ri[r, NDEC] > 0:
        q = hq[r, 0]
        made = qi[q, OUTPUT] - (hk[r, 0] - ri[r, STEP])
        ri[r, NDEC] -= 1
        _heap_pop(hk, hq, r, ri[r, NDEC])
        ri[r, KV] -= qi[q, CONTEXT] + made - 1
        qi[q, LEFT] = qi[q, OUTPUT] - made
        qi[q, CUR_CONTEXT] = qi[q, CONTEXT] + made
        cnt[MOVED] += 1
        _move(ri, rf, qi, qf, par, cnt, r, q, router, used)


@njit(cache=True)
def move_waiting(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, router: Any, used: Any) -> None:
    """What has not begun on a replica goes to others of its service, if any is ready."""
    if _route(ri, rf, router, used) < 0:
        return
    while ri[r, HEAD] >= 0 or ri[r, LATE_HEAD] >= 0:
        q = _pop_head(ri, qi, r, ri[r, HEAD] < 0)
        ri[r, WAITING] -= 1
        cnt[WAIT_TOKENS] -= qi[q, CUR_CONTEXT]
        rf[r, WORK] -= par[W_PREFILL] * qi[q, CUR_CONTEXT]
        _move(ri, rf, qi, qf, par, cnt, r, q, router, used)


@njit(cache=True)
def _move(ri: Any, rf: Any, qi: Any, qf: Any, par: Any, cnt: Any, r: Any, q: Any, router: Any, used: Any) -> None:
    """One request of `r` waits at another replica, before all that came after it."""
    ri[r, LOAD] -= 1
    rf[r, WORK] -= par[W_DECODE]
    to = _route(ri, rf, router, used)
    before, after = -1, ri[to, HEAD]
    while after >= 0 and qf[after, ARRIVAL] <= qf[q, ARRIVAL]:
        before, after = after, qi[after, NEXT]
    qi[q, NEXT] = after
    if before < 0:
        ri[to, HEAD] = q
    else:
        qi[before, NEXT] = q
    if after < 0:
        ri[to, TAIL] = q
    ri[to, LOAD] += 1
    ri[to, WAITING] += 1
    cnt[WAIT_TOKENS] += qi[q, CUR_CONTEXT]
    rf[to, WORK] += par[W_PREFILL] * qi[q, CUR_CONTEXT] + par[W_DECODE]


@njit(cache=True)
def _heap_push(hk: Any, hq: Any, r: Any, n: Any, key: Any, q: Any) -> None:
    i = n
    while i > 0:
        up = (i - 1) // 2
        if hk[r, up] <= key:
            break
        hk[r, i] = hk[r, up]
        hq[r, i] = hq[r, up]
        i = up
    hk[r, i] = key
    hq[r, i] = q


@njit(cache=True)
def _heap_pop(hk: Any, hq: Any, r: Any, n: Any) -> None:
    """Drop the root of a heap that has `n` left."""
    _heap_remove(hk, hq, r, 0, n)


@njit(cache=True)
def _heap_remove(hk: Any, hq: Any, r: Any, hole: Any, n: Any) -> None:
    """Drop the entry at `hole` of a heap that has `n` left."""
    key, q = hk[r, n], hq[r, n]
    if hole == n:
        return
    i = hole
    while i > 0 and hk[r, (i - 1) // 2] > key:
        hk[r, i] = hk[r, (i - 1) // 2]
        hq[r, i] = hq[r, (i - 1) // 2]
        i = (i - 1) // 2
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and hk[r, child + 1] < hk[r, child]:
            child += 1
        if hk[r, child] >= key:
            break
        hk[r, i] = hk[r, child]
        hq[r, i] = hq[r, child]
        i = child
    hk[r, i] = key
    hq[r, i] = q
