"""Which pods fall under which PodDisruptionBudget. Called by `view`; the server has the last word at the eviction."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from dure.adapters.kube.objects import KubeBudget
from dure.adapters.podspec import selector_of
from dure.model.cluster import Pod


def under_budgets(pods: Mapping[str, Pod], budgets: Mapping[str, KubeBudget]) -> Mapping[str, Pod]:
    """The pods with the names of their budgets; an empty selector means every pod of the namespace, none no pod."""
    if not budgets:
        return pods
    chosen = {
        name: (one.metadata.namespace, selector_of(one.spec.selector))
        for name, one in sorted(budgets.items())
        if one.spec.selector is not None
    }
    found = {}
    for name, pod in pods.items():
        names = tuple(
            budget
            for budget, (namespace, selector) in chosen.items()
            if namespace == pod.namespace and all(match.holds(pod.labels) for match in selector)
        )
        found[name] = replace(pod, budgets=names) if names else pod
    return found
