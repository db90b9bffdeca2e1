"""The four kinds of documents: apiVersion, kind, metadata and spec around what each kind's module describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dure.files import fleet, policy, tenant, workload
from dure.files.shapes import NAME, Constant, Key, Record
from dure.model.policy import Policy
from dure.model.tenant import Tenant

API_VERSION: Final = "dure.dev/v1alpha1"


def _document(name: str, metadata: Record, spec: Record, make: Callable[..., Any], needs_spec: bool = True) -> Record:
    def build(metadata: dict[str, Any], spec: dict[str, Any] | None = None, **_head: str) -> Any:
        return make(metadata, spec or {})

    return Record(
        f"A document of kind {name}.",
        (
            Key("apiVersion", Constant(API_VERSION), f"Always {API_VERSION}.", required=True),
            Key("kind", Constant(name), f"Always {name}.", required=True),
            Key("metadata", metadata, metadata.doc, required=True),
            Key("spec", spec, spec.doc, required=needs_spec),
        ),
        build,
        lambda value: {"apiVersion": API_VERSION, "kind": name, "metadata": value, "spec": value},
    )


def _named(kind: str) -> Record:
    return Record(f"Which {kind} it is.", (Key("name", NAME, f"The {kind}'s name.", required=True),), dict)


KINDS: Final[dict[str, Record]] = {
    "Fleet": _document("Fleet", fleet.METADATA, fleet.SPEC, fleet.make),
    "Workload": _document("Workload", workload.METADATA, workload.SPEC, workload.make),
    "Tenant": _document("Tenant", _named("tenant"), tenant.SPEC, lambda m, s: Tenant(**m, **s), needs_spec=False),
    "Policy": _document("Policy", _named("policy"), policy.SPEC, lambda m, s: Policy(**m, **s)),
}
