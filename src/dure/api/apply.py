"""What documents would change, and changing it. `diff` and `apply` share the first half.

Applying the same documents twice changes nothing the second time. What cannot be changed while Dure runs is refused
with a sentence, and then nothing at all is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dure.api.backend import Backend
from dure.api.seen import TAKEN, check_tenant, submit_own
from dure.files import Documents
from dure.model.answer import Action, Applied, FieldChange, Step
from dure.model.errors import Conflict, NotAllowed, NotFound
from dure.model.fleet import Fleet
from dure.model.policy import Policy
from dure.model.tenant import Role, Tenant
from dure.model.who import Who
from dure.model.workload import Workload
from dure.plane.policies import checked, keep


def diff(backend: Backend, documents: Documents, who: Who, role: Role = Role.VIEWER) -> Applied:
    """One step for each document, in the order tenants, policies, workloads, fleets. Writes nothing."""
    _check(documents, who, role)
    tenants, policies = _with_fleets(documents)
    old_tenants = {tenant.name: tenant for tenant in backend.store.list_tenants()}
    old_policies = {policy.name: policy for policy in backend.store.list_policies()}
    return Applied(
        (
            *(_step("Tenant", tenant.name, old_tenants.get(tenant.name), tenant) for tenant in tenants),
            *(_policy_step(old_policies.get(policy.name), policy) for policy in policies),
            *(_workload_step(backend, workload, who) for workload in documents.workloads),
            *(_fleet_step(backend.fleet(), fleet) for fleet in documents.fleets),
        )
    )


def apply(backend: Backend, documents: Documents, key: str, who: Who) -> Applied:
    """Write what differs. Workloads are submitted under `key`, so that a repeated call submits them once."""
    planned = diff(backend, documents, who, Role.SUBMITTER)
    refused = [step for step in planned.steps if step.action is Action.REFUSE]
    if refused:
        first = refused[0]
        raise Conflict(
            f"{first.message}; nothing was applied", where=f"{first.kind} {first.name}", remedy=first.remedy
        )
    todo = {(step.kind, step.name) for step in planned.steps if step.action is not Action.KEEP}
    tenants, policies = _with_fleets(documents)
    with backend.store.together():
        for tenant in tenants:
            if ("Tenant", tenant.name) in todo:
                backend.store.write_tenant(tenant)
        for policy in policies:
            if ("Policy", policy.name) in todo:
                keep(backend.store, policy, backend.now(), who.name)
        for workload in documents.workloads:
            if ("Workload", workload.name) in todo:
                submit_own(backend, workload, f"{key}/{workload.name}" if key else "", who)
    return Applied(planned.steps, changed=bool(todo))


def _check(documents: Documents, who: Who, role: Role) -> None:
    """Workloads belong to a tenant; everything else concerns the whole fleet and takes its administrator."""
    for workload in documents.workloads:
        check_tenant(who, workload.tenant, role)
    others = len(documents.tenants) + len(documents.policies) + len(documents.fleets)
    if others and not who.may(Role.VIEWER if role is Role.VIEWER else Role.ADMIN):
        raise NotAllowed("tenants, policies and fleets take the role admin for the whole fleet")


def _with_fleets(documents: Documents) -> tuple[list[Tenant], list[Policy]]:
    tenants = [*documents.tenants, *(tenant for fleet in documents.fleets for tenant in fleet.tenants)]
    policies = [*documents.policies, *(policy for fleet in documents.fleets for policy in fleet.policies)]
    return tenants, policies


def _policy_step(before: Policy | None, after: Policy) -> Step:
    checked(after)
    # The store numbers and signs versions; what the document says of that does not count.
    same = after
    if before is not None:
        same = msgspec.structs.replace(
            after, version=before.version, changed_by=before.changed_by, changed_s=before.changed_s
        )
    return _step("Policy", after.name, before, same)


def _workload_step(backend: Backend, workload: Workload, who: Who) -> Step:
    try:
        record = backend.store.fetch_workload(workload.name)
    except NotFound:
        return _step("Workload", workload.name, None, workload)
    if not record.status.phase.ended and not who.sees(record.spec.tenant):
        return Step("Workload", workload.name, Action.REFUSE, message=TAKEN, remedy="Choose another name.")
    if record.status.phase.ended:
        return _step("Workload", workload.name, None, workload)
    fields = tuple(_changes(record.spec, workload))
    if not fields:
        return Step("Workload", workload.name, Action.KEEP)
    return Step(
        "Workload",
        workload.name,
        Action.REFUSE,
        fields,
        message="a submitted workload does not change",
        remedy=f"Cancel it first: dure cancel {workload.name}",
    )


def _fleet_step(running: Fleet, fleet: Fleet) -> Step:
    """Tenants and policies of a fleet are steps of their own; its clusters are fixed while it runs."""
    fields = tuple(_changes(_fixed(running), _fixed(fleet)))
    if not fields:
        return Step("Fleet", fleet.name, Action.KEEP)
    return Step(
        "Fleet",
        fleet.name,
        Action.REFUSE,
        fields,
        message="clusters and prices of a running fleet do not change",
        remedy="Start again with: dure up --fleet FILE",
    )


def _fixed(fleet: Fleet) -> Fleet:
    return msgspec.structs.replace(fleet, tenants=(), policies=())


def _step(kind: str, name: str, before: msgspec.Struct | None, after: msgspec.Struct) -> Step:
    if before is None:
        return Step(kind, name, Action.CREATE)
    fields = tuple(_changes(before, after))
    return Step(kind, name, Action.CHANGE if fields else Action.KEEP, fields)


def _changes(before: msgspec.Struct, after: msgspec.Struct) -> Iterator[FieldChange]:
    old, new = dict(_leaves(_plain(before))), dict(_leaves(_plain(after)))
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield FieldChange(path, _text(old, path), _text(new, path))


def _plain(value: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, value


def _text(leaves: dict[str, Any], path: str) -> str:
    return msgspec.json.encode(leaves[path]).decode() if path in leaves else ""
