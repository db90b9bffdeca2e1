"""What another policy would have done, decided beside the live one on the very same snapshots."""

from __future__ import annotations

import msgspec

from dure.model.policy import Policy
from dure.model.units import Grams, Instant, Micros

# Under which name the store keeps the shadow that is on.
SHADOW_SETTING = "shadow"


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One workload on which the two do not agree; an empty place means that it would wait."""

    at_s: Instant
    workload: str
    live: str
    shadow: str
    live_micros: Micros = 0
    shadow_micros: Micros = 0


class Shadow(msgspec.Struct, frozen=True, omit_defaults=True):
    """`placed` counts what the live policy placed since then; money and grams are of those that both placed."""

    policy: Policy
    since_s: Instant
    placed: int = 0
    same: int = 0
    elsewhere: int = 0
    would_wait: int = 0
    would_start: int = 0
    live_micros: Micros = 0
    shadow_micros: Micros = 0
    live_carbon_g: Grams = 0.0
    shadow_carbon_g: Grams = 0.0
    newest: tuple[Difference, ...] = ()
