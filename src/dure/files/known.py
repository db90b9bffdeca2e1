"""What names documents may use: the catalogue, the fleet in force, and what the documents themselves define."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dure.files.problem import nearest_of
from dure.files.reading import Reading
from dure.model.accelerator import AcceleratorProfile
from dure.model.catalogue import Catalogue
from dure.model.fleet import Fleet, PoolSpec


class Known(msgspec.Struct, frozen=True):
    """`fleets` is empty when nothing is known of any; then nothing can be said about regions and nodes."""

    catalogue: Catalogue
    fleets: tuple[Fleet, ...] = ()
    tenants: frozenset[str] = frozenset()

    def accelerator(self, name: str, path: str, into: Reading) -> AcceleratorProfile | None:
        """The class of that name; a problem at `path` when there is none."""
        found = self.catalogue.classes.get(name)
        if found is None:
            into.at(path, f"unknown accelerator class '{name}'", hint(name, self.catalogue.classes))
        return found

    def pools(self) -> Iterable[PoolSpec]:
        return (pool for fleet in self.fleets for cluster in fleet.clusters for pool in cluster.pools)


def hint(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or the known ones."""
    names = sorted(known)
    return nearest_of(name, names) or f"Known: {', '.join(names)}"
