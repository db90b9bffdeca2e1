"""Chance as a function: the same seed and key always give the same draw, whatever was drawn before.

Used by the embedded world only. Nothing has to be saved or restored, and no draw can shift another.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from statistics import NormalDist

_STANDARD = NormalDist()


def uniform(seed: int, *key: str | int) -> float:
    """In the open interval (0, 1)."""
    text = "\x1f".join(str(part) for part in (seed, *key))
    drawn = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 12
    return (drawn + 0.5) / (1 << 52)


def normal(seed: int, *key: str | int) -> float:
    return _STANDARD.inv_cdf(uniform(seed, *key))


def exponential(per_s: float, seed: int, *key: str | int) -> float:
    """Seconds until something that happens `per_s` times a second; never (infinite) at a rate of zero."""
    return -math.log(uniform(seed, *key)) / per_s if per_s > 0 else math.inf


def smooth(seed: int, at: float, *key: str | int) -> float:
    """Noise in (0, 1) that changes gently with `at`: draws at whole numbers, a cosine between them."""
    left = math.floor(at)
    weight = (1 - math.cos(math.pi * (at - left))) / 2
    return (1 - weight) * _corner(seed, *key, left) + weight * _corner(seed, *key, left + 1)


# Whoever draws a curve asks for the same two corners again and again.
_corner = lru_cache(maxsize=1024)(uniform)
