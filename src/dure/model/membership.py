"""What a member cluster's agent is told when it joins: its own credential, and what the fleet says of its cluster."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.fleet import ClusterSpec


class Membership(msgspec.Struct, frozen=True):
    """What a member is told of itself: its pools, and the classes and models it may meet."""

    spec: ClusterSpec
    catalogue: Catalogue


class Proposal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The digest of a secret that the agent made and kept before it joined: it alone ever knows the secret."""

    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Credential(msgspec.Struct, frozen=True):
    """`credential` is empty where the agent proposed its own."""

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


def secret_digest(secret: str) -> str:
    """All that others keep of a secret. Those of agents are long and drawn by chance, so that they need no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()
