"""MIG and GSLICE: every tenant keeps a fixed part of the SMs, used or not.

GSLICE gives the quota through MPS, so neighbours still disturb each other (equation 1). MIG gives whole
slices with their own cache and memory, so they do not, but an even split of seven slices leaves 3 of 7,
42 of an A100's 108 SMs, to each of two. Both are load independent.
"""

from __future__ import annotations

from collections.abc import Sequence

MIG_SIZES = (7, 4, 3, 2, 1)
"""Slice counts an A100 or H100 can be cut into."""


def gslice_caps(quotas: Sequence[float], total_sms: int) -> list[int]:
    """SMs of each tenant under its quota, at least one."""
    return [max(1, round(q * total_sms)) for q in quotas]


def mig_caps(quotas: Sequence[float], sms_per_slice: int, total_sms: int) -> list[int]:
    """The largest slice not above each quota, at least one slice; the whole device for a quota of one."""
    caps = []
    for quota in quotas:
        if quota >= 1.0:
            caps.append(total_sms)
            continue
        fitting = [size for size in MIG_SIZES if size <= quota * 7 + 1e-9]
        caps.append(sms_per_slice * (fitting[0] if fitting else 1))
    return caps
