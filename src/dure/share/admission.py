"""May another tenant join this device? If not: why, and the nearest promise that could be kept.

The test is the one that runs every squad: give everyone's promise the partitions it needs under equation 1 and see
whether they fit, with memory and bandwidth. Memory that is reserved for somebody who has not come yet is not given to
others. A refusal names the resource that is short and the best latency that is still possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dure.model.units import MiB
from dure.share import memory

Latency = Callable[[int], float]
"""A tenant's latency in ms with this many partitions, neighbours counted; must not grow with them."""


class Applicant(msgspec.Struct, frozen=True):
    """`latency_ms` None means best effort: any share will do. `load` is the part of its time with a request in."""

    name: str
    latency: Latency
    latency_ms: float | None = None
    memory_mib: MiB = 0
    reserved_mib: MiB = 0
    bandwidth: float = 0.0
    load: float = 1.0


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """`short` is empty when admitted, else sms, memory or bandwidth; `wanted` and `have` are what clashes."""

    admitted: bool
    short: str = ""
    wanted: float = 0.0
    have: float = 0.0
    nearest_ms: float | None = None
    message: str = ""


def admit(
    present: Sequence[Applicant],
    newcomer: Applicant,
    parts: int,
    memory_mib: MiB,
    expected: Sequence[memory.Claim] = (),
) -> Verdict:
    """Whether every promise, the newcomer's included, can be kept together.

    `expected` are those who may still come and have memory reserved.
    """
    everyone = (*present, newcomer)
    claims = [memory.Claim(a.name, a.memory_mib, a.reserved_mib) for a in everyone]
    grants = memory.divide((*expected, *claims), memory_mib)
    if grants[-1].short_mib > 0:
        return _no_memory(newcomer, grants[:-1], memory_mib)
    bandwidth = sum(a.bandwidth * a.load for a in everyone)
    if bandwidth > 1.0:
        return Verdict(
            False, "bandwidth", bandwidth, 1.0, message=f"{bandwidth:.0%} of the memory bandwidth wanted together"
        )
    taken = sum(least_parts(a, parts) or parts for a in present)
    own = least_parts(newcomer, parts)
    if own is not None and taken + own <= parts:
        return Verdict(True)
    free = parts - taken
    nearest = newcomer.latency(free) if free > 0 else None
    wanted = own if own is not None else parts + 1
    asked = f"{own} of {parts} partitions" if own is not None else "more than the whole device"
    offer = f"; {nearest:.4g} ms could be promised" if nearest is not None else "; no promise is left to give"
    return Verdict(
        False,
        "sms",
        wanted,
        max(free, 0),
        nearest,
        f"{asked} wanted, {max(free, 0)} of {parts} partitions free{offer}",
    )


def _no_memory(newcomer: Applicant, others: Sequence[memory.Grant], memory_mib: MiB) -> Verdict:
    free_mib = memory_mib - sum(grant.granted_mib for grant in others)
    said = f"{newcomer.memory_mib} MiB wanted, {free_mib} of {memory_mib} MiB are neither held nor reserved by others"
    return Verdict(False, "memory", newcomer.memory_mib, free_mib, message=said)


def least_parts(applicant: Applicant, parts: int) -> int | None:
    """Fewest partitions that keep the promise; None if the whole device does not. Best effort needs one."""
    if applicant.latency_ms is None:
        return 1
    if applicant.latency(parts) > applicant.latency_ms:
        return None
    low, high = 1, parts
    while low < high:
        middle = (low + high) // 2
        if applicant.latency(middle) <= applicant.latency_ms:
            high = middle
        else:
            low = middle + 1
    return low
