"""How a placement problem is to be solved: the method and its limits. Values only; `solve` acts on them."""

from __future__ import annotations

import enum

import msgspec

# Up to so many options plain Python is quicker than loading compiled code.
PLAIN_OPTIONS = 4000


class Method(enum.StrEnum):
    """`regret` is the first answer alone, `ruin` improves it, `exact` proves it, `rolling` proves it by windows."""

    REGRET = "regret"
    RUIN = "ruin"
    EXACT = "exact"
    ROLLING = "rolling"


class Search(msgspec.Struct, frozen=True):
    """How long and how boldly `ruin` searches. Temperatures are multiples of the mean excess over the cheapest.

    Of `asked` jobs the one that lacks most moves; `steered` is the chance that its target is chosen by congestion
    price, `priced` that the ejected are reinserted by it, `blink` to pass over an option that would fit. `eject` jobs
    at most leave for another; `block` neighbouring jobs are searched together. Before a job is left out of a plan in
    which it could run, the search goes on for `rescue_per_job` more.
    """

    iterations_per_job: int = 400
    eject: int = 6
    hot: float = 1.5
    cold: float = 0.005
    asked: int = 2
    steered: float = 0.7
    priced: float = 0.8
    blink: float = 0.02
    block: int = 2000
    rescue_per_job: int = 600


class Ascent(msgspec.Struct, frozen=True):
    """Subgradient ascent of the congestion prices: Polyak's step, halved after `patience` steps without gain."""

    steps: int = 150
    momentum: float = 0.6
    scale: float = 1.0
    patience: int = 10


class Limits(msgspec.Struct, frozen=True):
    """When the exact solver stops. `nodes` is deterministic, `seconds` is the safety net."""

    seconds: float = 10.0
    nodes: int = 1_000_000
    gap: float = 1e-6
    threads: int = 1


class Solver(msgspec.Struct, frozen=True):
    """`window` is how many neighbouring jobs the rolling horizon hands to the exact solver at once."""

    method: Method = Method.RUIN
    search: Search = Search()
    ascent: Ascent = Ascent()
    limits: Limits = Limits()
    window: int = 60
