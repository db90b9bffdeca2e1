"""A group of services that share devices: each has some of its own, and there is an elastic share for all of them."""

from __future__ import annotations

import msgspec


class ElasticGroup(msgspec.Struct, frozen=True):
    """`primary` is each service's own part and `elastic` the shared one, both in replicas.

    At most `give_back` replicas return in one round, after `calm` rounds of lower need.
    """

    name: str
    primary: dict[str, int]
    elastic: int
    give_back: int = 1
    calm: int = 3
