"""The same stretch of workloads in two worlds: the fleet as it is, and the fleet with one change.

Called by `dure whatif`. The workloads are what was submitted (from the store's records), at the very hours at which
it was submitted, so that tariffs and grids are those of then; both worlds run in virtual time with the same seed, so
that only the change differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from dure.embedded.summary import Summary
from dure.embedded.week import Run, Timed, simulate
from dure.model.errors import InvalidInput, NotFound
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.policy import Policy, Verb
from dure.model.tariff import Tariff, Weekly
from dure.model.units import MICROS, Instant
from dure.model.workload import WorkloadRecord
from dure.place.settings import settings_of

_SETTING = re.compile(r"(?P<cluster>[^.=]+)\.(?P<key>price|pue|electricity)=(?P<value>[0-9.]+)(?P<times>x?)")


class Pair(msgspec.Struct, frozen=True):
    before: Summary
    after: Summary


def compared(run: Run, changed: Fleet) -> Pair:
    return Pair(simulate(run), simulate(replace(run, fleet=changed)))


def without(fleet: Fleet, cluster: str) -> Fleet:
    _known(fleet, cluster)
    return replace(fleet, clusters=tuple(one for one in fleet.clusters if one.info.name != cluster))


def changed(fleet: Fleet, text: str) -> Fleet:
    """`seoul.price=1.2x` scales all prices of a cluster, `seoul.price=900` sets them per device and hour; also
    `pue` and `electricity` (per kWh)."""
    found = _SETTING.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            f"'{text}' is not a change", remedy="Write CLUSTER.price=1.2x, CLUSTER.price=900, CLUSTER.pue=1.1"
        )
    name, key, value, times = found["cluster"], found["key"], float(found["value"]), bool(found["times"])
    _known(fleet, name)
    return replace(
        fleet,
        clusters=tuple(_set(one, key, value, times) if one.info.name == name else one for one in fleet.clusters),
    )


def replayed(records: Sequence[WorkloadRecord], since_s: Instant) -> list[Timed]:
    """What was submitted since then, when it was submitted."""
    return [(record.status.submitted_s, record.spec) for record in records if record.status.submitted_s >= since_s]


def placing_by(fleet: Fleet, name: str) -> Fleet:
    """The fleet placed by its policy `name`; by a method (regret, ruin, exact, rolling) where none is called so."""
    placing = [one for one in fleet.policies if one.verb is Verb.PLACE]
    made = next((one for one in placing if one.name == name), None) or Policy(
        f"whatif-{name}", Verb.PLACE, algorithm=name
    )
    settings_of(made)
    others = tuple(one for one in fleet.policies if one.verb is not Verb.PLACE)
    return replace(fleet, policies=(*others, made))


def _known(fleet: Fleet, cluster: str) -> None:
    if fleet.cluster(cluster) is None:
        names = ", ".join(one.info.name for one in fleet.clusters)
        raise NotFound(f"no cluster '{cluster}' in fleet {fleet.name}", remedy=f"Known: {names}")


def _set(cluster: ClusterSpec, key: str, value: float, times: bool) -> ClusterSpec:
    if key == "pue":
        pue = cluster.info.pue * value if times else value
        return replace(cluster, info=replace(cluster.info, pue=pue))
    pools = tuple(replace(pool, tariff=_priced(pool.tariff, key, value, times)) for pool in cluster.pools)
    return replace(cluster, pools=pools)


def _priced(tariff: Tariff, key: str, value: float, times: bool) -> Tariff:
    fields = ("electricity",) if key == "electricity" else ("owned", "on_demand", "spot")
    changes = {name: _weekly(getattr(tariff, name), value, times) for name in fields}
    return replace(tariff, **changes)


def _weekly(old: Weekly | None, value: float, times: bool) -> Weekly | None:
    if old is None:
        return None
    return Weekly(tuple(round(one * value) for one in old.values)) if times else Weekly((round(value * MICROS),))
