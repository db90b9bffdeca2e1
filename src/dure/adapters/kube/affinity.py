"""Required node affinity, answered node by node.

`pack` knows selectors only. Every distinct set of terms becomes one label that the view puts on the nodes that match,
and a selector of the pods that ask: exact, and without a second language in the core.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dure.adapters.kube.objects import KubePod

Json = dict[str, Any]
_PREFIX = "match.dure.dev/"


def terms_of(found: KubePod) -> list[Json]:
    required = found.spec.affinity.node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms", []))


def mark_of(terms: list[Json]) -> str:
    text = json.dumps(terms, sort_keys=True)
    return _PREFIX + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def matches(terms: Iterable[Json], name: str, labels: Mapping[str, str]) -> bool:
    """Terms are alternatives; within one all expressions must hold; an empty term matches nothing."""
    return any(_holds(term, name, labels) for term in terms)


def _holds(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    by_label = all(_expression(one, labels) for one in expressions)
    return by_label and all(_expression(one, {"metadata.name": name}) for one in fields)


def _expression(expression: Json, labels: Mapping[str, str]) -> bool:
    found = labels.get(expression.get("key", ""))
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt":
            return _compares(found, values, lambda a, b: a > b)
        case "Lt":
            return _compares(found, values, lambda a, b: a < b)
        case _:
            return False


def _compares(found: str | None, values: list[str], holds: Callable[[int, int], bool]) -> bool:
    try:
        return found is not None and holds(int(found), int(values[0]))
    except (ValueError, IndexError):
        return False
