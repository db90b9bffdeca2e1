"""Devices that a driver offers one by one and pods claim by description (Kubernetes: dynamic resource allocation).

An adapter judges the descriptions and names the devices that would do; `pack` picks among them. A device is known by
`driver/pool/name`.
"""

from __future__ import annotations

import msgspec

from dure.model.affinity import NodeTerm


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """`count` of `devices`, or (`every`) all of them that the node has."""

    name: str
    count: int
    devices: frozenset[str]
    every: bool = False


class Allotted(msgspec.Struct, frozen=True):
    """One device given to one request of one claim."""

    claim: str
    request: str
    device: str


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """`allotted` is what the claim has already, on the nodes of `home`; `problem` says why it can have nothing."""

    name: str
    requests: tuple[Request, ...] = ()
    allotted: tuple[Allotted, ...] = ()
    home: tuple[NodeTerm, ...] | None = None
    problem: str = ""
    unsupported: bool = False
