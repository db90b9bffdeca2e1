"""Looks again at the jobs of this gateway that still wait, and carries out the moves that `route.reroute` asks for.

A move is the least change that the API server takes: the queue label alone, label and resources (Kubernetes 1.36),
or a twin. A twin is created gated, so that Kueue cannot admit it; then the original is deleted in exactly the state
in which it was seen waiting; only then is the gate opened. If the original started meanwhile the deletion is refused
and the twin goes. Whoever finds a gated twin after a crash, or after an answer that was lost, knows by its original
what to do (`recovery`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from msgspec.structs import replace

from dure.adapters.kube.rest import STRATEGIC, Api
from dure.adapters.kueue.board import JOBS
from dure.gateway.desk import Desk, Route
from dure.gateway.journal import Entry
from dure.gateway.planner import Planner
from dure.gateway.sorter import Sorter
from dure.model.errors import Conflict, DureError, NotFound, Temporary
from dure.route import rechoose, reroute
from dure.route.accepts import QUEUE
from dure.route.policies import DEFAULT, looks_again
from dure.route.reroute import Move, Plan
from dure.route.rewrite import CHOSEN, KEY, MOVES
from dure.route.situation import Alternative, Candidate, Situation

GATE = "kueue.x-k8s.io/admission-gated-by"
GATE_NAME = "dure.dev/move"
TWIN_OF = "dure.dev/twin-of"
_log = structlog.get_logger("dure.gateway")
Json = dict[str, Any]


class Mover:
    """`turn` is called after changes, by one thread. Without a `planner` plans are made in that thread."""

    def __init__(
        self, desk: Desk, planner: Planner | None = None, *, recover: Callable[[], None] = lambda: None
    ) -> None:
        """`recover` sets right what was cut in half: a move whose end is not known leaves what a crash would."""
        self._desk, self._recover, self._cut = desk, recover, False
        self._joint = planner.plan if planner is not None else reroute.plan
        self._sorter = Sorter(desk)

    def turn(self) -> int:
        """How many jobs were moved."""
        desk = self._desk
        if not desk.settings.moves or desk.board.stale_s > desk.settings.stale_s:
            return 0
        if self._cut:
            self._recover()
            self._cut = False
        situation = desk.view.situation(desk.now(), desk.memory.durations)
        standing = {one.name: (lane.name, one.created_s) for lane in situation.lanes.values() for one in lane.waiting}
        waiting = []
        for key in [key for key in list(desk.routes) if key in standing]:
            route = desk.routes.get(key)
            if route is not None and standing[key][0] == route.candidate.alternatives[route.at].lane:
                waiting.append(_from_here(key, route, standing[key][1]))
        found = self._plan(tuple(waiting), situation)
        moved = sum(self._carry_out(move) for move in found.moves)
        self._sorter.sort(found, situation)
        return moved

    def _plan(self, waiting: tuple[Candidate, ...], situation: Situation) -> Plan:
        settings = self._desk.settings
        if settings.policy == DEFAULT:
            orders = settings.reroute.orders and self._sorter.allowed
            return self._joint(waiting, situation, replace(settings.reroute, orders=orders))
        if looks_again(settings.policy):
            return rechoose.plan(waiting, situation, self._desk.policy(settings.policy), settings.reroute)
        return Plan()

    def _carry_out(self, move: Move) -> bool:
        desk, route = self._desk, self._desk.routes[move.job]
        to = move.alternative
        index = next(place for place, one in enumerate(route.candidate.alternatives) if one.queue == to.queue)
        try:
            how, name = self._move(route, to)
        except DureError as error:
            self._cut = self._cut or isinstance(error, Temporary)
            _log.info("a job was not moved", job=move.job, to=to.queue, error=str(error))
            return False
        space = route.candidate.namespace
        desk.routes.pop(move.job, None)
        desk.view.drop(move.job)
        desk.routes[f"{space}/{name}"] = replace(route, at=index, name=name, moves=route.moves + 1)
        desk.follow(route.candidate, to, name, desk.now())
        desk.metrics.moved.labels(move.from_queue, to.queue, how).inc()
        entry = Entry(
            desk.now(),
            "moved",
            space,
            name,
            to.queue,
            to.class_name,
            how,
            move.because,
            from_queue=move.from_queue,
            eta_s=move.after_s,
        )
        desk.journal.write(entry, also=route.name)
        return True

    def _move(self, route: Route, to: Alternative) -> tuple[str, str]:
        space = route.candidate.namespace
        path = f"{JOBS}/namespaces/{space}/jobs/{route.name}"
        here = route.candidate.alternatives[route.at]
        made = self._desk.written(route.job, route.candidate, to, route.moves + 1)
        noted = {CHOSEN: to.class_name, MOVES: str(route.moves + 1)}
        label: Json = {"labels": {QUEUE: to.queue}, "annotations": noted}
        if not (here.changes.recreates or to.changes.recreates):
            body: Json = {"metadata": label}
            if here.changes.resources or to.changes.resources:
                body["spec"] = {"template": {"spec": {"containers": _resources(made)}}}
                self._desk.api.patch(path, body, dict, STRATEGIC)
                return "resources", route.name
            self._desk.api.patch(path, body, dict)
            return "label", route.name
        return "recreate", self._recreate(route, made, path)

    def _recreate(self, route: Route, made: Json, path: str) -> str:
        api, space = self._desk.api, route.candidate.namespace
        seen: Json = api.get(path, dict)
        digest = str((seen["metadata"].get("annotations") or {}).get(KEY, ""))
        # Between the end of the original and the note about its twin a repeated request would find neither.
        with self._desk.keys.held(space, digest):
            name = self._make_twin(route, made, seen, path, {KEY: digest} if digest else {})
            self._desk.keys.put(space, digest, name)
        return name

    def _make_twin(self, route: Route, made: Json, seen: Json, path: str, notes: Json) -> str:
        api, space = self._desk.api, route.candidate.namespace
        if not seen["spec"].get("suspend") or seen.get("status", {}).get("startTime"):
            raise Conflict("the job has started")
        metadata = seen["metadata"]
        twin = made["metadata"]
        twin["namespace"], twin["name"] = space, _twin_name(route.name, str(twin.get("name", "")), route.moves)
        twin["annotations"] = {
            **twin["annotations"],
            **notes,
            GATE: GATE_NAME,
            TWIN_OF: f"{route.name}/{metadata['uid']}",
        }
        created: Json = api.post(f"{JOBS}/namespaces/{space}/jobs", made, dict)
        own = f"{JOBS}/namespaces/{space}/jobs/{created['metadata']['name']}"
        try:
            api.delete(path, uid=metadata["uid"], version=metadata["resourceVersion"])
        except Conflict:
            api.delete(own, uid=created["metadata"]["uid"])
            raise
        self._desk.view.leave(f"{space}/{route.name}", metadata["uid"])
        try:
            open_gate(api, own)
        except NotFound:
            # Somebody took the twin for an orphan. The original is gone, so the job is made again, without a gate.
            made["metadata"]["annotations"] = {
                name: text for name, text in twin["annotations"].items() if name not in (GATE, TWIN_OF)
            }
            created = api.post(f"{JOBS}/namespaces/{space}/jobs", made, dict)
        return str(created["metadata"]["name"])


def open_gate(api: Api, path: str) -> None:
    api.patch(path, {"metadata": {"annotations": {GATE: None, TWIN_OF: None}}}, dict)


def _from_here(key: str, route: Route, created_s: float) -> Candidate:
    ways = route.candidate.alternatives
    here = ways[route.at]
    rest = tuple(one for place, one in enumerate(ways) if place != route.at and one.lane)
    return replace(route.candidate, name=key, alternatives=(here, *rest), moves=route.moves, created_s=created_s)


def _twin_name(now: str, wanted: str, moved: int) -> str:
    """Another name than the one it has; numbered, because a third move may come back to the first class."""
    base = (wanted or now)[:58]
    return base if base != now and not moved else f"{base}-m{moved + 1}"


def _resources(made: Json) -> list[Json]:
    return [
        {"name": one["name"], "resources": {"$patch": "replace", **one.get("resources", {})}}
        for one in made["spec"]["template"]["spec"]["containers"]
    ]
