"""Device memory: regions reserved for tenants with a promise, the rest shared by whoever comes.

A reserved region is held even while its tenant is idle, so a critical tenant never waits for memory; others may
use only what is neither reserved nor taken. The sum of what is granted never exceeds the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dure.model.units import MiB


class Claim(msgspec.Struct, frozen=True):
    """`wanted_mib` is what the tenant's model and buffers need; `reserved_mib` is kept for it at all times."""

    tenant: str
    wanted_mib: MiB
    reserved_mib: MiB = 0


class Grant(msgspec.Struct, frozen=True):
    tenant: str
    granted_mib: MiB
    short_mib: MiB


def divide(claims: Sequence[Claim], total_mib: MiB) -> tuple[Grant, ...]:
    """Grants in the order of the claims. A claim is met whole or not at all."""
    kept = [min(claim.reserved_mib, total_mib) for claim in claims]
    shared = total_mib - sum(kept)
    if shared < 0:
        kept, shared = _shrunk(kept, total_mib), 0
    grants = []
    for claim, own in zip(claims, kept, strict=True):
        beyond = max(0, claim.wanted_mib - own)
        if beyond <= shared:
            shared -= beyond
            grants.append(Grant(claim.tenant, max(claim.wanted_mib, own), 0))
        else:
            grants.append(Grant(claim.tenant, own, beyond - shared))
    return tuple(grants)


def _shrunk(kept: list[MiB], total_mib: MiB) -> list[MiB]:
    """Reservations in order until the device is full: a later one gets what is left."""
    left = total_mib
    result = []
    for own in kept:
        result.append(min(own, left))
        left -= result[-1]
    return result
