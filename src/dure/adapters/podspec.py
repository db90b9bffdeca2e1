"""The scheduling rules of a pod's spec, from Kubernetes' words into the model's.

Called by the adapter of real clusters for every pod and by the embedded cluster for a workload's pod template, so
that both honour the same. What cannot be judged is named in `Rules.unknown`, never dropped.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dure.model.affinity import ANY_NAMESPACE, NO_RULES, Match, NodeTerm, Operator, PodTerm, Rules, Spread
from dure.model.cluster import Toleration
from dure.model.errors import InvalidInput

Json = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Template(NamedTuple):
    """What of a workload's pod template says where its pods may go."""

    labels: dict[str, str]
    selector: dict[str, str]
    tolerations: tuple[Toleration, ...]
    affinity: Json
    spread: tuple[Json, ...]


@functools.lru_cache(maxsize=1024)
def template_of(text: str) -> Template:
    body: dict[str, Any] = json.loads(text) if text else {}
    spec = body.get("spec") or {}
    return Template(
        labels=(body.get("metadata") or {}).get("labels") or {},
        selector=spec.get("nodeSelector") or {},
        tolerations=tuple(
            Toleration(one.get("key", ""), one.get("operator", "Equal"), one.get("value", ""), one.get("effect", ""))
            for one in spec.get("tolerations") or ()
        ),
        affinity=spec.get("affinity") or {},
        spread=tuple(spec.get("topologySpreadConstraints") or ()),
    )


@functools.lru_cache(maxsize=1024)
def check_template(text: str) -> None:
    """`InvalidInput` for a pod template whose rules no cluster could read; its owner should hear of it at once."""
    try:
        found = template_of(text)
        rules = rules_of(found.affinity, found.spread, "", found.labels)
        for value, kind in ((found, Template), (rules, Rules)):
            msgspec.convert(msgspec.to_builtins(value), kind)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        # An error of msgspec is a ValueError and names the place.
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(
            f"the pod template's labels, tolerations, affinity or spread cannot be read: {what}",
            where="spec.template",
            remedy="Write them as in a pod: kubectl explain pod.spec.affinity",
        ) from error


def rules_of(
    affinity: Json, constraints: Sequence[Json], namespace: str, labels: Mapping[str, str], others: Iterable[str] = ()
) -> Rules:
    """`affinity` and `topologySpreadConstraints` of a spec; `others` names parts of it that nobody here can judge."""
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    unknown = [*others, *_unknown(near, "podAffinity"), *_unknown(far, "podAntiAffinity")]
    found = affinity.get("nodeAffinity") or {}
    if not (found or near or far or constraints or unknown):
        return NO_RULES
    required = found.get(_REQUIRED)
    return Rules(
        nodes=node_terms(required) if required else None,
        likes=tuple(_node_term(one["preference"], one["weight"]) for one in found.get(_PREFERRED) or ()),
        together=tuple(_pod_term(one, namespace) for one in near.get(_REQUIRED) or ()),
        apart=tuple(_pod_term(one, namespace) for one in far.get(_REQUIRED) or ()),
        drawn=_weighed(near.get(_PREFERRED) or (), namespace),
        shuns=_weighed(far.get(_PREFERRED) or (), namespace),
        spread=tuple(_spread(one, labels) for one in constraints),
        unknown=tuple(unknown),
    )


def node_terms(selector: Json) -> tuple[NodeTerm, ...]:
    """A node selector: its terms are alternatives."""
    return tuple(_node_term(one) for one in selector.get("nodeSelectorTerms") or ())


def selector_of(selector: Json) -> tuple[Match, ...]:
    """A label selector: `matchLabels` and `matchExpressions`, all of which must hold."""
    equal = sorted((selector.get("matchLabels") or {}).items())
    return (
        *(Match(key, Operator.IN, (value,)) for key, value in equal),
        *(_match(one) for one in selector.get("matchExpressions") or ()),
    )


def _node_term(term: Json, weight: int = 0) -> NodeTerm:
    labels = tuple(_match(one) for one in term.get("matchExpressions") or ())
    return NodeTerm(labels, tuple(_match(one) for one in term.get("matchFields") or ()), weight)


def _match(expression: Json) -> Match:
    return Match(expression["key"], Operator(expression["operator"]), tuple(expression.get("values") or ()))


def _weighed(terms: Iterable[Json], namespace: str) -> tuple[PodTerm, ...]:
    return tuple(_pod_term(one["podAffinityTerm"], namespace, one["weight"]) for one in terms)


def _pod_term(term: Json, namespace: str, weight: int = 0) -> PodTerm:
    """Without namespaces it means the pod's own; an empty namespace selector means all."""
    everywhere = (ANY_NAMESPACE,) if term.get("namespaceSelector") == {} else ()
    named = (*everywhere, *(term.get("namespaces") or ())) or (namespace,)
    return PodTerm(term["topologyKey"], _selected(term), named, weight)


def _selected(term: Json) -> tuple[Match, ...]:
    """No selector at all matches no pod; an empty one matches every pod."""
    selector = term.get("labelSelector")
    return _NOBODY if selector is None else selector_of(selector)


def _spread(one: Json, labels: Mapping[str, str]) -> Spread:
    alike = [Match(key, Operator.IN, (labels[key],)) for key in one.get("matchLabelKeys") or () if key in labels]
    return Spread(
        topology=one["topologyKey"],
        max_skew=one["maxSkew"],
        selector=(*_selected(one), *alike),
        hard=one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        min_domains=one.get("minDomains") or 1,
        honour_affinity=one.get("nodeAffinityPolicy", "Honor") == "Honor",
        honour_taints=one.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _unknown(kind: Json, name: str) -> list[str]:
    """Which namespaces a selector means depends on their labels, which nobody here reads. As a wish it is let go."""
    terms = kind.get(_REQUIRED) or ()
    return [f"{name}.namespaceSelector" for one in terms if one.get("namespaceSelector")][:1]


_NOBODY = (Match("", Operator.IN),)
