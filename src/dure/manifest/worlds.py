"""Which manifests are for the same cluster, and so may be compared. Called by `lint`.

Folders with a kustomization or a chart of their own that define the same object cannot both be meant for one cluster:
they are worlds apart. What lies outside of such folders belongs to every world.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from dure.manifest.document import Document

Name: TypeAlias = tuple[str, str, str, str]


def worlds(documents: Sequence[Document]) -> list[tuple[Document, ...]]:
    """Every folder joins the first world that has none of its objects yet; at least one world, in the given order."""
    shared = [document for document in documents if not document.home]
    homes: dict[str, list[Document]] = {}
    for document in documents:
        if document.home:
            homes.setdefault(document.home, []).append(document)
    found: list[tuple[set[Name], list[Document]]] = []
    for members in homes.values():
        names = _names(members)
        taken, world = next((each for each in found if not each[0] & names), (set[Name](), list[Document]()))
        if not world:
            found.append((taken, world))
        taken |= names
        world += members
    return [(*shared, *world) for _, world in found] or [tuple(shared)]


def _names(documents: Iterable[Document]) -> set[Name]:
    return {(each.group, each.kind, each.namespace, each.name) for each in documents if each.name}
