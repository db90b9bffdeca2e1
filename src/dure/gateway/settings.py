"""How a gateway behaves; every field is an option of `dure gateway serve`."""

from __future__ import annotations

import msgspec

from dure.model.units import Seconds
from dure.route import chain, dispatch, earliest_finish, reroute, seed
from dure.route.accepts import LightRule
from dure.route.policies import DEFAULT


class Settings(msgspec.Struct, frozen=True):
    """`fail_open`: with figures older than `stale_s` jobs go where they say, unchanged; else they are refused.

    `name` marks the jobs that this gateway took in: after a restart it goes on moving those, and no others.
    """

    name: str = "dure"
    policy: str = DEFAULT
    namespace: str = "default"
    light: LightRule = LightRule()
    stale_s: Seconds = 30.0
    fail_open: bool = True
    moves: bool = True
    look_again_s: Seconds = 0.25
    seed: seed.Settings = seed.Settings()
    finish: earliest_finish.Settings = earliest_finish.Settings()
    chain: chain.Settings = chain.Settings()
    reroute: reroute.Settings = reroute.Settings()
    dispatches: bool = False
    dispatching: dispatch.Settings = dispatch.Settings()
