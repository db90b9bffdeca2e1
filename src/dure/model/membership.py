"""What a member cluster's agent is told when it joins: its own credential, and what the fleet says of its cluster."""

from __future__ import annotations

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.fleet import ClusterSpec


class Membership(msgspec.Struct, frozen=True):
    """What a member is told of itself: its pools, and the classes and models it may meet."""

    spec: ClusterSpec
    catalogue: Catalogue


class Credential(msgspec.Struct, frozen=True):
    cluster: str
    credential: str


class JoinToken(msgspec.Struct, frozen=True):
    """Shown once; nobody can read it again."""

    cluster: str
    token: str
    expires_s: float


class SigningRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate signing request in PEM; the key stays with who made it."""

    request: str


class AgentCertificate(msgspec.Struct, frozen=True):
    """In PEM, with the authorities to trust."""

    cluster: str
    certificate: str
    authority: str
