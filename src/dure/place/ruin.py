"""Ruin and recreate under congestion prices: the improving half of the default solver.

Pick a job that pays more than it might, pick an option of it that is better under the congestion prices (or just
cheaper), eject the jobs that stand in the way, put the job there and reinsert the ejected ones, mostly by cost +
price, sometimes by cost alone. What the plan costs above the prices' bound is what its jobs lack of their best priced
option, plus priced room left idle: so those who lack most are asked first. Keep the result by simulated annealing.
Anytime: after every block the plan is whole and no dearer than before. Big instances are searched in blocks of
neighbouring jobs, so that the working set stays in cache and the time per job stays flat.
Source: Schrimpf et al. (2000), ruin and recreate; Christiaens and Vanden Berghe (2020), blinks.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numba import njit

from dure.place.instance import HELD, NONE, Floats, Instance, Longs
from dure.place.kernels import affords, book, draw, fits
from dure.place.solver import Search

# A run of so many hours is worth remembering what turned it away; a shorter one is walked sooner.
LONG = 16


def improve(
    inst: Instance, choice: Longs, rent: Floats, search: Search, seed: int, go_on: Callable[[], bool] = lambda: True
) -> Longs:
    """A plan no dearer than `choice`. `go_on` is asked before each block: that is how a caller ends it early."""
    if inst.options == 0:
        return choice
    by_cost, rank = _orders(inst.first, inst.cost)
    by_priced, priced_rank = _orders(inst.first, inst.cost + rent)
    orders = (by_cost, rank, by_priced, priced_rank, _lacks(inst.first, inst.cost + rent, by_priced))
    problem = (inst.first, inst.option, inst.cost, inst.hold, inst.need, inst.ledger, inst.drain)
    choice = choice.copy()
    free, left = inst.capacity.copy(), inst.left.copy()
    _book_all(inst.option, inst.need, inst.ledger, inst.drain, choice, free, left, 0, inst.jobs, 1)
    longest = int(inst.option[:, 3].max())
    chances = tuple(int(share * 65536) for share in (search.steered, search.priced, search.blink))
    heats = (search.hot, search.cold)
    for lo, hi in blocks(inst.jobs, search.block):
        if not go_on():
            break
        rounds = search.iterations_per_job * (hi - lo)
        _anneal(
            problem, orders, choice, free, left, lo, hi, longest, rounds, search.eject, search.asked, heats, chances,
            seed + lo,
        )  # fmt: skip
    _settle(*problem, by_cost, choice, free, left)
    return choice


def blocks(jobs: int, size: int) -> list[tuple[int, int]]:
    """Equal runs of about `size` neighbouring jobs."""
    count = max(1, round(jobs / size))
    edges = [jobs * index // count for index in range(count + 1)]
    return [(lo, hi) for lo, hi in pairwise(edges) if lo < hi]


@njit(cache=True)
def _orders(first, key):  # type: ignore[no-untyped-def]
    """Each job's options by rising key, and the position of each option in that order."""
    order = np.empty(len(key), np.int32)
    rank = np.empty(len(key), np.int32)
    for j in range(len(first) - 1):
        lo, hi = first[j], first[j + 1]
        by = np.argsort(key[lo:hi], kind="mergesort")
        for i in range(hi - lo):
            order[lo + i] = lo + by[i]
            rank[lo + by[i]] = i
    return order, rank


@njit(cache=True)
def _lacks(first, key, order):  # type: ignore[no-untyped-def]
    """By how much each option's key is above that of its job's best one."""
    lack = np.empty(len(key))
    for j in range(len(first) - 1):
        for o in range(first[j], first[j + 1]):
            lack[o] = key[o] - key[order[first[j]]]
    return lack


@njit(cache=True)
def _book_all(option, need, ledger, drain, choice, free, left, lo, hi, sign):  # type: ignore[no-untyped-def]
    for j in range(lo, hi):
        if choice[j] >= 0:
            book(option, need, ledger, drain, free, left, j, choice[j], sign)


@njit(cache=True, inline="always")
def _put(option, need, ledger, drain, choice, free, left, head, after, before, lo, j, o):  # type: ignore[no-untyped-def]
    """Place job `j` at option `o` and list it under its row and start hour."""
    book(option, need, ledger, drain, free, left, j, o, 1)
    choice[j] = o
    row, start = option[o, 0], option[o, 2]
    old = head[row, start]
    after[j - lo] = old
    before[j - lo] = NONE
    if old >= 0:
        before[old - lo] = j
    head[row, start] = j


@njit(cache=True, inline="always")
def _pull(option, need, ledger, drain, choice, free, left, head, after, before, lo, j):  # type: ignore[no-untyped-def]
    """Take job `j` out of its option and off the list."""
    o = choice[j]
    book(option, need, ledger, drain, free, left, j, o, -1)
    choice[j] = HELD
    a, b = after[j - lo], before[j - lo]
    if b >= 0:
        after[b - lo] = a
    else:
        head[option[o, 0], option[o, 2]] = a
    if a >= 0:
        before[a - lo] = b


@njit(cache=True)
def _blocked_hour(option, need, free, o):  # type: ignore[no-untyped-def]
    """First hour at which option `o` lacks room in its row, or -1."""
    row, start, length, n = option[o, 0], option[o, 2], option[o, 3], option[o, 4]
    for h in range(start, start + length):
        for k in range(need.shape[1]):
            if free[row, h, k] < need[n, k]:
                return h
    return NONE


@njit(cache=True, inline="always")
def _occupant(option, choice, head, after, lo, row, hour, longest, dice):  # type: ignore[no-untyped-def]
    """A job of the block that runs on `row` at `hour`, each with the same chance; -1 when there is none."""
    seen, found = 0, NONE
    for start in range(max(0, hour - longest + 1), hour + 1):
        j = head[row, start]
        while j >= 0:
            if start + option[choice[j], 3] > hour:
                seen += 1
                dice = draw(dice)
                if (dice >> 8) % seen == 0:
                    found = j
            j = after[j - lo]
    return found, dice


@njit(cache=True, inline="always")
def _seed_job(first, rank, lack, choice, lo, hi, asked, dice):  # type: ignore[no-untyped-def]
    """Of `asked` random jobs without their cheapest option the one that lacks most; -1 if a dozen draws find none."""
    found, left = NONE, asked
    for _ in range(12):
        dice = draw(dice)
        j = lo + (dice >> 8) % (hi - lo)
        if first[j] == first[j + 1] or (choice[j] >= 0 and rank[choice[j]] == 0):
            continue
        if choice[j] < 0:
            return j, dice
        if found < 0 or lack[choice[j]] > lack[choice[found]]:
            found = j
        left -= 1
        if left <= 0:
            break
    return found, dice


@njit(cache=True, inline="always")
def _target(first, by_cost, rank, by_priced, priced_rank, choice, j, steered, dice):  # type: ignore[no-untyped-def]
    """A better option of `j`: the better of two under the prices, or any that is cheaper."""
    now = choice[j]
    dice = draw(dice)
    if now >= 0 and priced_rank[now] > 0 and (dice >> 8) & 0xFFFF < steered:
        dice = draw(dice)
        one = (dice >> 8) % priced_rank[now]
        dice = draw(dice)
        return by_priced[first[j] + min(one, (dice >> 8) % priced_rank[now])], dice
    reach = rank[now] if now >= 0 else first[j + 1] - first[j]
    dice = draw(dice)
    return by_cost[first[j] + (dice >> 8) % reach], dice


@njit(cache=True)
def _arrange(first, option, need, by_cost, begin, count, dice, out, old):  # type: ignore[no-untyped-def]
    """Order of reinsertion: shuffled, then half of the time the largest first."""
    for i in range(count - 1, begin, -1):
        dice = draw(dice)
        s = begin + (dice >> 8) % (i - begin + 1)
        out[i], out[s] = out[s], out[i]
        old[i], old[s] = old[s], old[i]
    dice = draw(dice)
    if dice >> 31 == 0:
        return dice
    for i in range(begin + 1, count):
        job, was = out[i], old[i]
        o = by_cost[first[job]]
        size = option[o, 3] * need[option[o, 4], 0]
        at = i - 1
        while at >= begin:
            o = by_cost[first[out[at]]]
            if option[o, 3] * need[option[o, 4], 0] >= size:
                break
            out[at + 1], old[at + 1] = out[at], old[at]
            at -= 1
        out[at + 1], old[at + 1] = job, was
    return dice


@njit(cache=True, inline="always")
def _cheapest_fitting(  # type: ignore[no-untyped-def]
    first, option, cost, need, ledger, drain, free, left, order, j, dearest, blink, dice, wall, asking
):
    """First option of `j` in `order` that fits and costs at most `dearest`; now and then it blinks past one.

    `wall[row]` is who was turned away (`asking`, and the need) and in which hour: most starts of a long job run into
    the same one, so they need not be walked again.
    """
    for p in range(first[j], first[j + 1]):
        o = order[p]
        if cost[o] > dearest:
            continue
        if option[o, 3] >= LONG:
            row, turned = option[o, 0], asking * len(need) + option[o, 4]
            if wall[row, 0] == turned and option[o, 2] <= wall[row, 1] < option[o, 2] + option[o, 3]:
                continue
            hour = _blocked_hour(option, need, free, o)
            if hour >= 0:
                wall[row, 0], wall[row, 1] = turned, hour
                continue
        if fits(option, need, free, o) and affords(ledger, drain, left, j, o):
            dice = draw(dice)
            if (dice >> 8) & 0xFFFF >= blink:
                return o, dice
    return HELD, dice


@njit(cache=True)
def _settle(first, option, cost, hold, need, ledger, drain, by_cost, choice, free, left):  # type: ignore[no-untyped-def]
    """Give every job the cheapest option that is free for it, until nobody wants to change any more."""
    moved = True
    while moved:
        moved = False
        for j in range(len(hold)):
            now = choice[j]
            paid = cost[now] if now >= 0 else hold[j]
            if now >= 0:
                book(option, need, ledger, drain, free, left, j, now, -1)
            best = now
            for p in range(first[j], first[j + 1]):
                o = by_cost[p]
                if cost[o] >= paid:
                    break
                if fits(option, need, free, o) and affords(ledger, drain, left, j, o):
                    best = o
                    break
            if best >= 0:
                book(option, need, ledger, drain, free, left, j, best, 1)
            moved = moved or best != now
            choice[j] = best


@njit(cache=True)
def _mean_excess(first, cost, hold, by_cost, choice, lo, hi):  # type: ignore[no-untyped-def]
    excess = 0.0
    for j in range(lo, hi):
        if first[j] < first[j + 1]:
            now = cost[choice[j]] if choice[j] >= 0 else hold[j]
            excess += max(0.0, now - cost[by_cost[first[j]]])
    return excess / (hi - lo)


@njit(cache=True)
def _anneal(  # type: ignore[no-untyped-def] # noqa: C901
    problem, orders, choice, free, left, lo, hi, longest, rounds, eject, asked, heats, chances, seed
):
    """The loop itself. One function, because a call that hands over a dozen arrays costs more than the work."""
    first, option, cost, hold, need, ledger, drain = problem
    by_cost, rank, by_priced, priced_rank, lack = orders
    hot, cold = heats
    steered, priced, blink = chances
    head = np.full((free.shape[0], free.shape[1]), NONE, np.int64)
    after, before = np.full(hi - lo, NONE, np.int64), np.full(hi - lo, NONE, np.int64)
    _book_all(option, need, ledger, drain, choice, free, left, lo, hi, -1)
    for j in range(lo, hi):
        if choice[j] >= 0:
            _put(option, need, ledger, drain, choice, free, left, head, after, before, lo, j, choice[j])
    heat = hot * _mean_excess(first, cost, hold, by_cost, choice, lo, hi)
    cooling = (cold / hot) ** (64.0 / max(64, rounds))
    dice = draw((seed * 2654435761 + 97) & 0xFFFFFFFF)
    out, old = np.empty(eject + 1, np.int64), np.empty(eject + 1, np.int64)
    wall, asking = np.full((free.shape[0], 2), NONE, np.int64), 0
    best = choice[lo:hi].copy()
    value, best_value = 0.0, 0.0
    for turn in range(rounds):
        if turn & 63 == 63:
            heat *= cooling
        j, dice = _seed_job(first, rank, lack, choice, lo, hi, asked, dice)
        if j < 0:
            continue
        target, dice = _target(first, by_cost, rank, by_priced, priced_rank, choice, j, steered, dice)

        # Ruin: the job itself and those in the way of its target.
        out[0], old[0] = j, choice[j]
        paid = cost[choice[j]] if choice[j] >= 0 else hold[j]
        floor = cost[by_cost[first[j]]]
        if choice[j] >= 0:
            _pull(option, need, ledger, drain, choice, free, left, head, after, before, lo, j)
        count = 1
        while count <= eject:
            hour = _blocked_hour(option, need, free, target)
            if hour < 0:
                break
            victim, dice = _occupant(option, choice, head, after, lo, option[target, 0], hour, longest, dice)
            if victim < 0:
                break
            out[count], old[count] = victim, choice[victim]
            paid += cost[choice[victim]]
            floor += cost[by_cost[first[victim]]]
            _pull(option, need, ledger, drain, choice, free, left, head, after, before, lo, victim)
            count += 1

        # Recreate. `floor` is the cost so far with all that is still out at its cheapest; the annealing
        # threshold `ceiling` is drawn first, so that a hopeless reinsertion stops early.
        dice = draw(dice)
        ceiling = paid - heat * np.log(((dice >> 8) + 1) / 16777217.0)
        done = 0
        if fits(option, need, free, target) and affords(ledger, drain, left, j, target):
            _put(option, need, ledger, drain, choice, free, left, head, after, before, lo, j, target)
            floor += cost[target] - cost[by_cost[first[j]]]
            done = 1
        dice = _arrange(first, option, need, by_cost, done, count, dice, out, old)
        dice = draw(dice)
        order = by_priced if (dice >> 8) & 0xFFFF < priced else by_cost
        while done < count and floor <= ceiling:
            v = out[done]
            low = cost[by_cost[first[v]]]
            dearest = min(hold[v], ceiling - floor + low)
            asking += 1
            at, dice = _cheapest_fitting(
                first, option, cost, need, ledger, drain, free, left, order, v, dearest, blink, dice, wall, asking
            )
            done += 1
            if at >= 0:
                _put(option, need, ledger, drain, choice, free, left, head, after, before, lo, v, at)
                floor += cost[at] - low
            else:
                floor += hold[v] - low

        if done == count and floor <= ceiling:
            value += floor - paid
            if value < best_value - 1e-12 and 2 * turn > rounds:
                best_value = value
                best[:] = choice[lo:hi]
            continue
        for i in range(done):
            if choice[out[i]] >= 0:
                _pull(option, need, ledger, drain, choice, free, left, head, after, before, lo, out[i])
        for i in range(count):
            if old[i] >= 0:
                _put(option, need, ledger, drain, choice, free, left, head, after, before, lo, out[i], old[i])
    if value > best_value:
        _book_all(option, need, ledger, drain, choice, free, left, lo, hi, -1)
        choice[lo:hi] = best
        _book_all(option, need, ledger, drain, choice, free, left, lo, hi, 1)
