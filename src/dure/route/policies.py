"""The routing policies by name, as one kind of function, with their settings already in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from dure.model.errors import InvalidInput
from dure.route import chain, earliest_finish, seed, static
from dure.route.situation import Candidate, Choice, Situation

Policy: TypeAlias = Callable[[Candidate, Situation], Choice]
DEFAULT = "earliest-finish"
NAMES = ("static", "seed", DEFAULT, "chain")


def policy(
    name: str,
    *,
    seed_settings: seed.Settings | None = None,
    finish_settings: earliest_finish.Settings | None = None,
    chain_settings: chain.Settings | None = None,
) -> Policy:
    match name:
        case "static":
            return static.choose
        case "seed":
            return partial(seed.choose, settings=seed_settings)
        case "earliest-finish":
            return partial(earliest_finish.choose, settings=finish_settings)
        case "chain":
            return partial(chain.choose, settings=chain_settings)
    raise InvalidInput(f"no routing policy '{name}'", remedy=f"The policies are: {', '.join(NAMES)}.")


def looks_again(name: str) -> bool:
    """Whether jobs that wait are routed anew; the published rule and the fixed queue decide once."""
    return name in (DEFAULT, "chain")
