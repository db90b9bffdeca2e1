"""A real plane with two tenants: `ours`, and `zulu`, whose every name holds that word so that a leak shows."""

from __future__ import annotations

import time

import msgspec

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.api.app import App, create_app
from dure.api.auth import OWNER, Keys
from dure.embedded.world import EmbeddedWorld
from dure.model.fleet import Fleet
from dure.model.policy import Policy, Verb
from dure.model.shadow import SHADOW_SETTING, Shadow
from dure.model.tenant import Budget, Role, Tenant
from dure.model.token import TokenWish
from dure.model.who import EVERY
from dure.plane import tokens
from dure.web.pages import pages
from tests.fixtures.small_world import CATALOGUE, cluster, pool, service, training
from tests.unit.api.clients import TOKEN

OURS, THEIRS = "ours", "zulu"
START_S = 1_789_948_800.0


class TwoTenants:
    """Some of either run, some of either wait for the other's devices."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore()
        self.fleet = Fleet(
            "test",
            (cluster(pool("big", "big"), pool("small", "small", nodes=2)),),
            tenants=(
                Tenant(OURS, quota={"big": 2}, budget=Budget(money_micros=10**12)),
                Tenant(THEIRS, quota={"big": 2}, budget=Budget(money_micros=10**12)),
            ),
            policies=(Policy("steady", Verb.PLACE),),
        )
        self.world = EmbeddedWorld(self.fleet, CATALOGUE, self.store, self.clock, seed=1)
        for tenant in (OURS, THEIRS):
            self._submit(tenant)
        for _ in range(12):
            self.world.step()
            self.clock.advance(self.clock.now() + 600.0)
        self.store.write_setting(
            SHADOW_SETTING, msgspec.json.encode(Shadow(self.fleet.policies[0], START_S)).decode()
        )
        self.app: App = create_app(self.world.desk, Keys(TOKEN), pages=pages())
        self.secrets = {
            (role, tenant): tokens.create(
                self.store, TokenWish(f"{role}-{tenant.strip('*') or 'all'}", role, tenant), OWNER, time.time()
            ).secret
            for tenant in (OURS, EVERY)
            for role in Role
        }
        tokens.create(self.store, TokenWish("zulu-ci", Role.VIEWER, THEIRS), OWNER, time.time())

    def theirs(self) -> bytes:
        """Everything of the other tenant that somebody could have changed."""
        records = self.store.list_workloads(tenant=THEIRS)
        tenants = [one for one in self.store.list_tenants() if one.name == THEIRS]
        held = [one for one in self.store.list_tokens() if one.tenant == THEIRS]
        return msgspec.json.encode([records, tenants, held])

    def _submit(self, tenant: str) -> None:
        wanted = [
            training(f"{tenant}-train", duration_s=10**6),
            training(f"{tenant}-short", duration_s=60.0),
            training(f"{tenant}-wide", devices=4, duration_s=10**6),
            service(f"{tenant}-chat", replicas=2),
        ]
        for spec in wanted:
            self.world.desk.submit(msgspec.structs.replace(spec, tenant=tenant))
