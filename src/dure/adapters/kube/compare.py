"""What applying manifests would change in a live cluster: a server-side dry run, compared with what is there."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from dure.adapters.kube.rest import Api
from dure.model.errors import NotFound

Json = dict[str, Any]
# Written by the server; never a difference that someone made.
_OWN = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp")


class Comparer:
    """`unknown` are the kinds that the cluster has no definition of; objects of theirs count as new."""

    def __init__(self, api: Api) -> None:
        self.unknown: list[str] = []
        self._api = api
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}

    def changes(self, objects: Iterable[Json], write: Callable[[Json], str]) -> list[str]:
        """A unified diff for each object that would be made or changed; `write` turns an object into text."""
        made = [each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"]
        return [text for each in objects if (text := self._change(each, write, made))]

    def _change(self, wanted: Json, write: Callable[[Json], str], made: list[str]) -> str:
        name = f"{wanted['kind']}/{wanted['metadata'].get('namespace', '')}/{wanted['metadata']['name']}".replace(
            "//", "/"
        )
        there, after = self._sides(wanted, made)
        before_text = write(bare(there)) if there is not None else ""
        rows = difflib.unified_diff(
            before_text.splitlines(),
            write(bare(after)).splitlines(),
            f"live/{name}",
            f"rendered/{name}",
            lineterm="",
        )
        return "\n".join(rows)

    def _sides(self, wanted: Json, made: list[str]) -> tuple[Json | None, Json]:
        """What is there, and what it would become."""
        path = self._path(wanted)
        if not path:
            return None, wanted
        try:
            there = self._api.get(path, dict)
        except NotFound:
            there = None
        if there is None and wanted["metadata"].get("namespace") in made:
            return None, wanted  # its namespace comes with it, so the server cannot try it yet
        return there, self._api.apply(path, wanted, dict, dry_run=True)

    def _path(self, wanted: Json) -> str:
        """Empty when the cluster has no such kind."""
        version = wanted["apiVersion"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if base not in self._kinds:
            try:
                found = self._api.get(base, dict)
            except NotFound:
                found = {"resources": []}
            self._kinds[base] = {
                each["kind"]: (each["name"], each["namespaced"])
                for each in found["resources"]
                if "/" not in each["name"]
            }
        kind = self._kinds[base].get(wanted["kind"])
        if kind is None:
            named = f"{wanted['kind']} of {version}"
            if named not in self.unknown:
                self.unknown.append(named)
            return ""
        plural, namespaced = kind
        metadata = wanted["metadata"]
        where = f"/namespaces/{metadata.get('namespace', 'default')}" if namespaced else ""
        return f"{base}{where}/{plural}/{metadata['name']}"


def bare(document: Json) -> Json:
    """Without what the server wrote."""
    metadata = {key: value for key, value in document["metadata"].items() if key not in _OWN}
    rest = {key: value for key, value in document.items() if key not in ("status", "metadata", "apiVersion", "kind")}
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata, **rest}
