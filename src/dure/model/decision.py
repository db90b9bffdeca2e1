"""Everything Dure can decide, each with its reasons and, where money moves, its bill.

`place` answers Place, Hold, Move, Reclaim and Reweigh; `pack` Bind, Hold, Resize and Evict; `scale` ScaleReplicas,
Reallocate and ScaleNodes; `share` ShareSquad; `route` RouteJob. Decisions are values: nothing has happened yet when
one exists.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from dure.model.accelerator import ShareMode
from dure.model.claim import Allotted
from dure.model.cluster import Slice
from dure.model.reason import Verdict
from dure.model.tariff import Capacity
from dure.model.units import Instant, Milli
from dure.model.weights import WeightPoint, Weights
from dure.model.workload import Placement


class Place(msgspec.Struct, frozen=True, tag_field="kind", tag="place"):
    """The workload gets this home; `others` are the options not taken, cheapest first, each with its reason."""

    workload: str
    placement: Placement
    others: tuple[Verdict, ...] = ()


class Hold(msgspec.Struct, frozen=True, tag_field="kind", tag="hold", omit_defaults=True):
    """Not now: one verdict per pool looked at. `until_s` is when it is worth looking again."""

    workload: str
    verdicts: tuple[Verdict, ...]
    until_s: Instant | None = None
    pod: str = ""


class Move(msgspec.Struct, frozen=True, tag_field="kind", tag="move"):
    """A running workload should change its home; `saving` is the bill before minus the bill after."""

    workload: str
    placement: Placement
    saving: int
    reason: Verdict


class Bind(msgspec.Struct, frozen=True, tag_field="kind", tag="bind", omit_defaults=True):
    """This pod on this node with these slices; all binds of one gang are made or none is."""

    pod: str
    uid: str
    node: str
    slices: tuple[Slice, ...]
    workload: str = ""
    evicts: tuple[str, ...] = ()
    claims: tuple[Allotted, ...] = ()


class Evict(msgspec.Struct, frozen=True, tag_field="kind", tag="evict"):
    """This pod gives way; it is queued again by its owner."""

    pod: str
    uid: str
    workload: str
    reason: Verdict


class Resize(msgspec.Struct, frozen=True, tag_field="kind", tag="resize"):
    """The device is cut in another way from now on."""

    node: str
    device: str
    mode: ShareMode
    reason: Verdict


class ScaleReplicas(msgspec.Struct, frozen=True, tag_field="kind", tag="scale-replicas"):
    workload: str
    before: int
    after: int
    reason: str


class Reallocate(msgspec.Struct, frozen=True, tag_field="kind", tag="reallocate"):
    """A step of a plan that gives devices to other services of a group; `standing` says how the whole stands."""

    group: str
    plan: str
    workload: str
    standing: str
    number: int
    phase: str
    replicas: int
    reason: str


class ScaleNodes(msgspec.Struct, frozen=True, tag_field="kind", tag="scale-nodes"):
    cluster: str
    pool: str
    before: int
    after: int
    capacity: Capacity
    reason: str


class SquadMember(msgspec.Struct, frozen=True):
    tenant: str
    kernels: int
    sm_milli: Milli


class ShareSquad(msgspec.Struct, frozen=True, tag_field="kind", tag="share-squad"):
    device: str
    members: tuple[SquadMember, ...]
    policy: str


class RouteJob(msgspec.Struct, frozen=True, tag_field="kind", tag="route-job", omit_defaults=True):
    job: str
    namespace: str
    queue: str
    class_name: str
    rule: str
    eta_s: Instant | None = None
    moved_from: str = ""


class Reweigh(msgspec.Struct, frozen=True, tag_field="kind", tag="reweigh"):
    """After a window the adaptive weights of `place` are these; `seen` says what moved them."""

    method: str
    seen: WeightPoint
    weights: Weights


class Reclaim(msgspec.Struct, frozen=True, tag_field="kind", tag="reclaim"):
    """A workload leaves so that `claimant`, of the tenant `lender`, gets what it waits for: quota that was lent, or
    the place of a lower priority."""

    workload: str
    lender: str
    claimant: str
    reason: Verdict


Decision: TypeAlias = (
    Place
    | Hold
    | Move
    | Reclaim
    | Reweigh
    | Bind
    | Evict
    | Resize
    | ScaleReplicas
    | Reallocate
    | ScaleNodes
    | ShareSquad
    | RouteJob
)


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the journal: which world was seen (`digest`), what was decided."""

    seq: int
    at_s: Instant
    digest: str
    decision: Decision
    tenant: str = ""
    cluster: str = ""

    @property
    def workload(self) -> str:
        return getattr(self.decision, "workload", "")
