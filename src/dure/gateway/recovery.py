"""What a gateway takes up again when it starts: moves that were cut in half, and its jobs that still wait.

Every Job that it created carries its name as a label, so one selective list finds them all. Twins of other gateways
are touched only when they are old: their owner may be in the middle of a move.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import msgspec
import structlog

from dure.adapters.kueue.board import JOBS
from dure.gateway.desk import Desk, Route
from dure.gateway.mover import GATE, GATE_NAME, TWIN_OF, open_gate
from dure.model.errors import DureError, NotFound
from dure.route.accepts import check_job, kind_of
from dure.route.rewrite import CHOSEN, GATEWAY, KEY, MOVES, ORIGIN
from dure.route.situation import Candidate

PAGE = "500"
OLD_S = 60.0
_log = structlog.get_logger("dure.gateway")
Json = dict[str, Any]


class Recovery:
    """`run` after the board is in step, before the first request, and again when the end of a move is not known."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def run(self) -> None:
        for job in self._jobs(GATEWAY):
            if self._settled(job) and job["metadata"]["labels"][GATEWAY] == self._desk.settings.name:
                self._note_key(job["metadata"])
                self._take_up(job)

    def _note_key(self, metadata: Json) -> None:
        """Whoever asks again with the same key shall find it, also under the name that it got by a move."""
        digest = str((metadata.get("annotations") or {}).get(KEY, ""))
        self._desk.keys.put(metadata["namespace"], digest, metadata["name"])

    def _jobs(self, selector: str) -> Iterator[Json]:
        cursor = ""
        while True:
            params = {"labelSelector": selector, "limit": PAGE, **({"continue": cursor} if cursor else {})}
            page: Json = self._desk.api.get(f"{JOBS}/jobs", dict, **params)
            yield from page.get("items", ())
            cursor = page["metadata"].get("continue", "")
            if not cursor:
                return

    def _settled(self, job: Json) -> bool:
        """Open the gate of a twin whose original is gone, delete one whose original is there. False if deleted."""
        metadata, api = job["metadata"], self._desk.api
        notes = metadata.get("annotations") or {}
        if GATE_NAME not in notes.get(GATE, "") or TWIN_OF not in notes:
            return True
        if metadata["labels"][GATEWAY] != self._desk.settings.name and not self._old(metadata):
            return True
        name, _, uid = notes[TWIN_OF].partition("/")
        path = f"{JOBS}/namespaces/{metadata['namespace']}/jobs"
        if self._uid(f"{path}/{name}") == uid:
            api.delete(f"{path}/{metadata['name']}", uid=metadata["uid"])
            return False
        open_gate(api, f"{path}/{metadata['name']}")
        return True

    def _take_up(self, job: Json) -> None:
        """Know its kind again, and move it again if it waits and may move."""
        desk, metadata = self._desk, job["metadata"]
        notes, namespace, name = metadata.get("annotations") or {}, metadata["namespace"], metadata["name"]
        if _over(job):
            return
        try:
            known = self._candidate(job, notes, namespace)
        except (DureError, msgspec.DecodeError) as error:
            _log.warning("a job of before cannot be taken up", job=f"{namespace}/{name}", error=str(error))
            return
        origin, candidate = known
        classes = [one.class_name for one in candidate.alternatives]
        at = classes.index(notes[CHOSEN]) if notes.get(CHOSEN) in classes else 0
        here, key = candidate.alternatives[at], f"{namespace}/{name}"
        desk.view.know(key, (candidate.kind, here.class_name, here.run_s))
        if candidate.light and job["spec"].get("suspend"):
            desk.routes[key] = Route(origin, candidate, at, name, _moves(notes))

    def _candidate(self, job: Json, notes: Json, namespace: str) -> tuple[Json, Candidate]:
        # What a list holds does not say of what kind it is.
        listed = {"apiVersion": "batch/v1", "kind": "Job", **job}
        origin: Json = msgspec.json.decode(notes[ORIGIN]) if ORIGIN in notes else listed
        check_job(origin, "origin")
        candidate = self._desk.candidate(origin, namespace, self._desk.now(), "origin")
        return origin, msgspec.structs.replace(candidate, kind=kind_of(job))

    def _old(self, metadata: Json) -> bool:
        created = datetime.datetime.fromisoformat(metadata["creationTimestamp"])
        return self._desk.now() - created.timestamp() > OLD_S

    def _uid(self, path: str) -> str:
        try:
            found: Json = self._desk.api.get(path, dict)
        except NotFound:
            return ""
        return str(found["metadata"]["uid"])


def _over(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def _moves(notes: Json) -> int:
    text = str(notes.get(MOVES, "0"))
    return int(text) if text.isdigit() else 0
