"""Scripted surges in the embedded fleet: two services share devices, and one of them gets many more requests.

`dure demo surge` leaves a script in the state folder; the live fleet looks for it in every turn, submits the
services, and when both run lets the requests rise as the script says. What is done about it is the plane's own work
(`plane.pooling`). The script remembers that it was started, so a restart of Dure does not begin it anew.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from dure.adapters.whole import write_whole
from dure.embedded.world import EmbeddedWorld
from dure.model.catalogue import Catalogue
from dure.model.elastic import ElasticGroup
from dure.model.errors import InvalidInput, NotFound
from dure.model.fleet import Fleet
from dure.model.units import Instant, Seconds
from dure.model.workload import Phase, Replicas, Workload

FILE = "demo.json"
TEMPLATE = "serve-chat-7b"


class Surge(msgspec.Struct, frozen=True):
    """From `after_s` on, for `for_s`, a service gets `factor` times its mean rate."""

    workload: str
    factor: float
    after_s: Seconds
    for_s: Seconds


class Script(msgspec.Struct, frozen=True):
    group: ElasticGroup
    surges: tuple[Surge, ...]
    started_s: Instant | None = None


def surge_of(name: str, other: str, factor: float, for_s: Seconds) -> Script:
    """First `other` is busy and grows; when it is calm again but has not given back yet, `name` surges."""
    group = ElasticGroup("demo", {name: 3, other: 4}, elastic=2, calm=6)
    return Script(group, (Surge(other, 3.4, 0.0, 600.0), Surge(name, factor, 660.0, for_s)))


def write(state: Path, script: Script) -> None:
    write_whole(state / FILE, msgspec.json.encode(script))


class Stage:
    """Turned by the live fleet; a folder without a script costs one look at the file system."""

    def __init__(self, state: Path, world: EmbeddedWorld, fleet: Fleet, catalogue: Catalogue) -> None:
        self._state, self._world, self._fleet, self._catalogue = state, world, fleet, catalogue
        self._seen = 0
        self._script: Script | None = None

    def turn(self, now_s: Instant) -> None:
        script = self._read()
        if script is None or script.started_s is not None or not self._all_run(script):
            return
        for surge in script.surges:
            since_s = now_s + surge.after_s
            for cluster in self._world.clusters.values():
                cluster.surge(surge.workload, surge.factor, since_s, since_s + surge.for_s)
        self._script = replace(script, started_s=now_s)
        write(self._state, self._script)

    def _read(self) -> Script | None:
        """The script; one that is new makes its services known first."""
        try:
            changed = (self._state / FILE).stat().st_mtime_ns
            if changed == self._seen:
                return self._script
            self._seen = changed
            self._script = msgspec.json.decode((self._state / FILE).read_bytes(), type=Script)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"the script cannot be read: {error}", where=str(self._state / FILE)) from error
        self._world.plane.pooling.groups = (self._script.group,)
        if self._script.started_s is None:
            group = self._script.group
            self._world.submit([service_of(name, group, self._fleet, self._catalogue) for name in group.primary])
        return self._script

    def _all_run(self, script: Script) -> bool:
        return all(self._runs(name) for name in script.group.primary)

    def _runs(self, name: str) -> bool:
        try:
            return self._world.store.fetch_workload(name).status.phase is Phase.RUNNING
        except NotFound:
            return False


def service_of(name: str, group: ElasticGroup, fleet: Fleet, catalogue: Catalogue) -> Workload:
    """Both accept one class only, so that they share a pool; the first one named goes before."""
    template = catalogue.templates.get(TEMPLATE)
    if template is None or not fleet.tenants:
        raise InvalidInput(f"the fleet has no template '{TEMPLATE}' or no tenant", remedy="Use the built-in fleet.")
    first = next(iter(group.primary))
    here = {pool.class_name for cluster in fleet.clusters for pool in cluster.pools}
    return replace(
        template,
        classes=tuple(one for one in template.classes if one.name in here)[:1] or template.classes,
        name=name,
        tenant=fleet.tenants[0].name,
        replicas=Replicas(2, 10),
        rate_per_s=12.0,
        priority=200 if name == first else 100,
        deferrable=False,
    )
