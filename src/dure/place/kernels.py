"""The hot loops that all heuristic solvers share: does an option fit, take it, give it back, draw a number.

Called millions of times a second from `greedy`, `ruin` and `prices`; compiled with numba. Each function is
also plain Python (`.py_func`), which the tests use as the twin. Arrays are passed one by one: taken out of a tuple
each would cost a reference count, which halves the speed. The generator is a 32-bit linear congruential one
so that compiled and plain runs give the same bytes on every platform.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, inline="always")
def draw(state):  # type: ignore[no-untyped-def]
    """Next state of the generator; use the upper bits (`state >> 8`), the low ones are weak."""
    return (state * 1664525 + 1013904223) & 0xFFFFFFFF


@njit(cache=True)
def fits(option, need, free, o):  # type: ignore[no-untyped-def]
    """Is there room for option `o` in its row (and its quota row) in every hour?"""
    row, quota, start, length, n = option[o, 0], option[o, 1], option[o, 2], option[o, 3], option[o, 4]
    for k in range(need.shape[1]):
        units = need[n, k]
        if units == 0:
            continue
        for h in range(start, start + length):
            if free[row, h, k] < units:
                return False
        if quota >= 0:
            for h in range(start, start + length):
                if free[quota, h, k] < units:
                    return False
    return True


@njit(cache=True)
def take(option, need, free, o, sign):  # type: ignore[no-untyped-def]
    """Take option `o` out of what is free (`sign` = 1), or give it back (-1)."""
    row, quota, start, length, n = option[o, 0], option[o, 1], option[o, 2], option[o, 3], option[o, 4]
    for k in range(need.shape[1]):
        units = sign * need[n, k]
        if units == 0:
            continue
        for h in range(start, start + length):
            free[row, h, k] -= units
        if quota >= 0:
            for h in range(start, start + length):
                free[quota, h, k] -= units


@njit(cache=True, inline="always")
def affords(ledger, drain, left, j, o):  # type: ignore[no-untyped-def]
    """Does the tenant's budget of money and carbon still cover option `o`?"""
    b = ledger[j]
    return b < 0 or (drain[o, 0] <= left[b, 0] and drain[o, 1] <= left[b, 1])


@njit(cache=True, inline="always")
def book(option, need, ledger, drain, free, left, j, o, sign):  # type: ignore[no-untyped-def]
    """Take option `o` of job `j` out of room and budget (`sign` = 1), or give it back (-1)."""
    take(option, need, free, o, sign)
    b = ledger[j]
    if b >= 0:
        left[b, 0] -= sign * drain[o, 0]
        left[b, 1] -= sign * drain[o, 1]
