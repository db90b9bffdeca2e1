"""Why a namespace takes no more pods: what its ResourceQuotas still allow, in one sentence for `why`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from dure.adapters.kube.objects import KubeQuota
from dure.model.quantity import amount


def shortage(quotas: Iterable[KubeQuota], namespace: str, resources: Mapping[str, str]) -> str:
    """The first limit that one more pod with these requests would break; empty when none would."""
    here = [quota for quota in quotas if quota.metadata.namespace == namespace]
    for quota in sorted(here, key=lambda one: one.metadata.name):
        for key, hard in sorted(quota.status.hard.items()):
            needed, used = _needed(key, resources), quota.status.used.get(key, "0")
            if needed is not None and amount(used) + needed > amount(hard):
                told = f"quota {quota.metadata.key} allows {hard} {key}, {used} are in use"
                return f"{told}, one more pod asks for {needed.normalize():f}"
    return ""


def _needed(key: str, resources: Mapping[str, str]) -> Decimal | None:
    if key in ("pods", "count/pods"):
        return Decimal(1)
    name = key.removeprefix("requests.").removeprefix("limits.")
    return amount(str(resources[name])) if name in resources else None
