"""Who asks: a person, a program or an agent, with the role they have for each tenant.

Made once at the edge (the gate of the API, the gRPC service) and handed on; rules and filters ask it, the audit log
writes its name down.
"""

from __future__ import annotations

import msgspec

from dure.model.tenant import Role

# In `grants`: every tenant, and what belongs to the fleet as a whole.
EVERY = "*"
_RANK = {role: rank for rank, role in enumerate(Role)}


class Who(msgspec.Struct, frozen=True, omit_defaults=True):
    """`grants` says which role for which tenant; `via` how they were known: `root`, `token:ID`, `oidc:SUBJECT`."""

    name: str
    grants: dict[str, Role] = {}
    via: str = ""

    @property
    def tenants(self) -> frozenset[str] | None:
        """Whose things they may see; None is everybody's."""
        return None if EVERY in self.grants else frozenset(self.grants)

    @property
    def tenant(self) -> str:
        """The tenant they belong to; empty for who stands above tenants or in several."""
        found = self.tenants
        return next(iter(found)) if found and len(found) == 1 else ""

    @property
    def role(self) -> Role | None:
        """The highest they have anywhere."""
        return max(self.grants.values(), key=_RANK.__getitem__, default=None)

    def sees(self, tenant: str) -> bool:
        return EVERY in self.grants or tenant in self.grants

    def may(self, role: Role, tenant: str = EVERY) -> bool:
        """Whether they have this role or a higher one for the tenant; without one, for the whole fleet."""
        held = [self.grants[name] for name in {tenant, EVERY} if name in self.grants]
        return any(_RANK[one] >= _RANK[role] for one in held)

    def may_somewhere(self, role: Role) -> bool:
        """Whether they have this role or a higher one for any tenant."""
        return any(_RANK[one] >= _RANK[role] for one in self.grants.values())


def agent(cluster: str) -> Who:
    """The agent of a cluster, whose credential was checked."""
    return Who(f"agent of {cluster}", {}, f"agent:{cluster}")


# What the plane decides by itself, with nobody asking.
PLANE = Who("plane", {EVERY: Role.ADMIN}, "plane")
