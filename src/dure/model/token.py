"""API tokens as they are kept: the digest of the secret, whom it lets in, for how long. The secret is shown once."""

from __future__ import annotations

import msgspec

from dure.model.tenant import Role
from dure.model.units import Instant
from dure.model.who import EVERY, Who


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """`tenant` is `*` for one that stands above tenants. After a rotation `previous` works on for a while."""

    id: str
    name: str
    role: Role
    tenant: str
    digest: str
    created_s: Instant
    created_by: str
    expires_s: Instant | None = None
    revoked_s: Instant | None = None
    previous: str = ""
    previous_until_s: Instant = 0.0

    def lives(self, now_s: Instant) -> bool:
        return self.revoked_s is None and (self.expires_s is None or now_s < self.expires_s)

    @property
    def who(self) -> Who:
        return Who(self.name, {self.tenant: self.role}, f"token:{self.id}")


class TokenView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is shown of a token; `secret` only in the answer that made it."""

    id: str
    name: str
    role: Role
    tenant: str
    created_s: Instant
    created_by: str
    expires_s: Instant | None = None
    revoked_s: Instant | None = None
    secret: str = ""


class TokenWish(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`days` until it expires; at most ten years."""

    name: str
    role: Role
    tenant: str = EVERY
    days: float = 90.0
