"""What a pod asks of nodes and of other pods beside capacity, in the words of Kubernetes.

Adapters read it from a pod's spec; `pack` honours it and `adapters.legality` checks it again. A term that Dure cannot
judge is kept in `Rules.unknown`, so that the pod is held with its name instead of being seated in spite of it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

ANY_NAMESPACE = "*"


class Operator(enum.StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Match(msgspec.Struct, frozen=True, omit_defaults=True):
    """One expression over labels."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return found in self.values
            case Operator.NOT_IN:
                return found not in self.values
            case Operator.EXISTS:
                return found is not None
            case Operator.DOES_NOT_EXIST:
                return found is None
            case Operator.GT | Operator.LT:
                return self._compares(found)

    def _compares(self, found: str | None) -> bool:
        """Whole numbers only; anything else does not hold, as in Kubernetes."""
        try:
            here, limit = int(found or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return here > limit if self.operator is Operator.GT else here < limit

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"no {self.key}"
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case _:
                return f"{self.key} {self.operator} {', '.join(self.values)}"


class NodeTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """All expressions must hold; a term without any matches no node. `weight` counts where the term is a wish."""

    labels: tuple[Match, ...] = ()
    names: tuple[Match, ...] = ()
    weight: int = 0

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.labels and not self.names:
            return False
        return all(one.holds(labels) for one in self.labels) and all(one.holds({_NAME: name}) for one in self.names)

    def __str__(self) -> str:
        return " and ".join(str(one) for one in (*self.labels, *self.names)) or "nothing"


class PodTerm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods of these labels and namespaces, on nodes that share the value of the label `topology`."""

    topology: str
    selector: tuple[Match, ...] = ()
    namespaces: tuple[str, ...] = ()
    weight: int = 0

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if ANY_NAMESPACE not in self.namespaces and namespace not in self.namespaces:
            return False
        return all(one.holds(labels) for one in self.selector)

    def __str__(self) -> str:
        return " and ".join(str(one) for one in self.selector) or "any pod"


class Spread(msgspec.Struct, frozen=True, omit_defaults=True):
    """No domain of `topology` may have more than `max_skew` matching pods above the emptiest. Not `hard`: a wish."""

    topology: str
    max_skew: int
    selector: tuple[Match, ...] = ()
    hard: bool = True
    min_domains: int = 1
    honour_affinity: bool = True
    honour_taints: bool = False


class Rules(msgspec.Struct, frozen=True, omit_defaults=True):
    """`nodes` are alternatives (None: any node); `together` and `apart` must all hold; the rest are wishes."""

    nodes: tuple[NodeTerm, ...] | None = None
    likes: tuple[NodeTerm, ...] = ()
    together: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    drawn: tuple[PodTerm, ...] = ()
    shuns: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def of_pods(self) -> bool:
        """Whether where others are matters."""
        return bool(self.together or self.apart or self.drawn or self.shuns or self.spread)

    def admit(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the node affinity accepts a node."""
        return self.nodes is None or any(term.holds(name, labels) for term in self.nodes)


NO_RULES = Rules()
_NAME = "metadata.name"
