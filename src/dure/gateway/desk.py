"""Where a Job is taken in: read, choose, rewrite, create once, remember.

Called by the HTTP application from many threads. A Job is created at most once: its name is its identity at the API
server, and an idempotency key is written into it, so that a repeated request finds its own Job again, also under
another name (`keys`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dure.adapters.kube.rest import Api
from dure.adapters.kueue.board import JOBS, Board
from dure.adapters.kueue.figures import counted
from dure.adapters.kueue.objects import Workload
from dure.gateway.journal import Entry, Journal
from dure.gateway.keys import Keys, key_digest
from dure.gateway.ledger import Ledger
from dure.gateway.memory import Memory
from dure.gateway.metrics import Metrics
from dure.gateway.settings import Settings
from dure.gateway.view import View
from dure.model.errors import Conflict, InvalidInput, NotAllowed, NotFound, Temporary
from dure.model.units import Instant
from dure.route.accepts import KIND, check_job, demand_of, kind_of, ways_of
from dure.route.policies import Policy, policy
from dure.route.rewrite import GATEWAY, KEY, MOVES, ORIGIN, rewritten
from dure.route.situation import Alternative, Candidate, Choice, Situation, Waiting

# What an annotation may hold is bounded; a Job larger than this is routed once and not moved after a restart.
MOST_ORIGIN = 200_000
MOST_KIND = 201
Json = dict[str, Any]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to one Job. `figures` is what the queues showed when it was decided."""

    name: str
    namespace: str
    queue: str
    class_name: str
    rule: str
    because: str
    created: bool
    uid: str = ""
    eta_s: Instant | None = None
    offers: tuple[Any, ...] = ()
    figures: dict[str, Any] = {}
    stale_s: float = 0.0
    repeated: bool = False
    job: Json | None = None


class Caller(msgspec.Struct, frozen=True):
    """Who asks; without a name the gateway acts for itself."""

    name: str = ""
    groups: tuple[str, ...] = ()

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Impersonation: the API server decides what this user may do."""
        if not self.name:
            return ()
        return (("Impersonate-User", self.name), *(("Impersonate-Group", group) for group in self.groups))


class Route(msgspec.Struct, frozen=True):
    """A job of this gateway that may still move: as it was handed in, its ways, and where it is now."""

    job: Json
    candidate: Candidate
    at: int
    name: str
    moves: int = 0


class Desk:
    def __init__(
        self,
        api: Api,
        board: Board,
        ledger: Ledger,
        settings: Settings,
        journal: Journal,
        memory: Memory,
        now: Callable[[], Instant],
    ) -> None:
        self.api, self.board, self.settings, self.journal, self.memory = api, board, settings, journal, memory
        self.view = View(board, ledger)
        self.metrics = Metrics()
        self.keys = Keys()
        self.now = now
        self.routes: dict[str, Route] = {}
        self._policies: dict[str, Policy] = {}

    def submit(
        self, document: Any, caller: Caller, *, where: str, key: str = "", name: str = "", dry_run: bool = False
    ) -> Answer:
        """`name` is another policy than the gateway's own. With `dry_run` everything but the creation is done."""
        job = check_job(document, where)
        namespace = str(job["metadata"].get("namespace") or self.settings.namespace)
        candidate, choice, situation, stale_s = self._choose(job, namespace, name or self.settings.policy, where)
        chosen = candidate.alternatives[choice.index]
        made = self.written(job, candidate, chosen, 0)
        digest = key_digest(key)
        if digest:
            made["metadata"]["annotations"][KEY] = digest
        made["metadata"]["namespace"] = namespace
        found: Json = {}
        repeated = False
        if not dry_run:
            with self.keys.held(namespace, digest):
                found, repeated = self._create(namespace, made, caller, digest)
                self.keys.put(namespace, digest, str(found["metadata"]["name"]))
            if not repeated:
                self._remember(found, candidate, choice, caller, stale_s)
                self.view.enter(candidate.home, situation)
                if candidate.light:
                    made_name = str(found["metadata"]["name"])
                    self.routes[f"{namespace}/{made_name}"] = Route(job, candidate, choice.index, made_name)
        figures = {
            one.lane: _plain(situation, one.lane) for one in candidate.alternatives if one.lane in situation.figures
        }
        return Answer(
            name=str((found or made)["metadata"].get("name", "")),
            namespace=namespace,
            queue=chosen.queue,
            class_name=chosen.class_name,
            rule=choice.rule,
            because=choice.because,
            created=bool(found) and not repeated,
            uid=str(found.get("metadata", {}).get("uid", "")),
            eta_s=choice.eta_s,
            offers=choice.offers,
            figures=figures,
            stale_s=round(stale_s, 3) if stale_s != float("inf") else -1.0,
            repeated=repeated,
            job=made if dry_run else None,
        )

    def _choose(self, job: Json, namespace: str, name: str, where: str) -> tuple[Candidate, Choice, Situation, float]:
        stale_s = self.board.stale_s
        now_s = self.now()
        candidate = self.candidate(job, namespace, now_s, where)
        lanes = [one.lane for one in candidate.alternatives if one.lane]
        situation = self.view.situation(now_s, self.memory.durations, lanes)
        if stale_s > self.settings.stale_s:
            if not self.settings.fail_open:
                raise Temporary(
                    f"the figures are {stale_s:.0f} s old", reason="StaleFigures", remedy="Try again in a moment."
                )
            because = f"the figures are {stale_s:.0f} s old, so the job goes unchanged where it says"
            return candidate, Choice(0, "fail-open", because), situation, stale_s
        return candidate, self.policy(name)(candidate, situation), situation, stale_s

    def candidate(self, job: Json, namespace: str, now_s: Instant, where: str = "") -> Candidate:
        """The job with its ways; a LocalQueue that is not there is an error that names those that are."""
        lanes = self.view.lanes_of(namespace)
        ways = ways_of(job, self.settings.light, where)
        if not ways[0].queue:
            raise InvalidInput(
                "the Job names no queue", where=where, remedy="Set the label kueue.x-k8s.io/queue-name."
            )
        if ways[0].queue not in lanes:
            known = f"There are: {', '.join(sorted(lanes))}." if lanes else "This namespace has no LocalQueue."
            raise NotFound(f"no LocalQueue '{ways[0].queue}' in namespace '{namespace}'", where=where, remedy=known)
        kind, alternatives, plain = kind_of(job), [], demand_of(job, where)
        for way in ways:
            lane = lanes.get(way.queue, "")
            changed = rewritten(job, way.queue, way.class_name, way.changes) if way.changes.resources else None
            wanted = plain if changed is None else demand_of(changed, where)
            quota = self.view.quota(lane) if lane else {}
            run_s, known_s = self.memory.durations.expected(kind, way.class_name, way.estimate_s)
            asked = self.view.shape(counted(wanted, quota))
            alternatives.append(Alternative(way.class_name, way.queue, lane, asked, run_s, way.changes, known_s))
        name = str(job["metadata"].get("name") or job["metadata"].get("generateName"))
        ways_in = tuple(alternatives)
        return Candidate(f"{namespace}/{name}", namespace, kind, ways_in, now_s, origin=ways_in[0].lane)

    def written(self, job: Json, candidate: Candidate, chosen: Alternative, moves: int) -> Json:
        """The Job for this way, marked as this gateway's; one that may move carries what it was handed in as."""
        notes = {KIND: candidate.kind} if len(candidate.kind) < MOST_KIND else {}
        if candidate.light:
            origin = msgspec.json.encode(_origin(job)).decode()
            notes |= {MOVES: str(moves), **({ORIGIN: origin} if len(origin) < MOST_ORIGIN else {})}
        marks = {GATEWAY: self.settings.name}
        return rewritten(job, chosen.queue, chosen.class_name, chosen.changes, notes, marks)

    def _create(self, namespace: str, job: Json, caller: Caller, digest: str) -> tuple[Json, bool]:
        path = f"{JOBS}/namespaces/{namespace}/jobs"
        before = self._made(path, self.keys.name(namespace, digest), digest)
        if before is not None:
            return before, True
        try:
            return self.api.post(path, job, dict, caller.headers), False
        except Conflict:
            name = job["metadata"].get("name", "")
            found = self._made(path, name, digest)
            if found is not None:
                return found, True
            self.metrics.refused.labels("conflict").inc()
            raise Conflict(
                f"there is a Job '{name}' in namespace '{namespace}' already",
                remedy="Give it another name, or repeat the request with the same Idempotency-Key.",
            ) from None
        except NotAllowed as error:
            self.metrics.refused.labels("forbidden").inc()
            raise NotAllowed(error.message, remedy=f"Ask for the right to create jobs in '{namespace}'.") from error

    def _made(self, path: str, name: str, digest: str) -> Json | None:
        """The Job of this name, if it was made by a request with this key."""
        if not name or not digest:
            return None
        try:
            found: Json = self.api.get(f"{path}/{name}", dict)
        except NotFound:
            return None
        return found if (found["metadata"].get("annotations") or {}).get(KEY) == digest else None

    def _remember(self, found: Json, candidate: Candidate, choice: Choice, caller: Caller, stale_s: float) -> None:
        name, now_s, chosen = str(found["metadata"]["name"]), self.now(), candidate.alternatives[choice.index]
        self.follow(candidate, chosen, name, now_s)
        self.metrics.chosen.labels(chosen.queue, choice.rule).inc()
        self.journal.write(
            Entry(
                now_s,
                "chosen",
                candidate.namespace,
                name,
                chosen.queue,
                chosen.class_name,
                choice.rule,
                choice.because,
                caller.name,
                eta_s=choice.eta_s,
                offers=choice.offers,
                saw=dict(choice.saw),
                stale_s=stale_s,
            )
        )

    def follow(self, candidate: Candidate, chosen: Alternative, name: str, now_s: Instant) -> None:
        """Count the job in its queue from now on, and know its kind when it ends."""
        key = f"{candidate.namespace}/{name}"
        self.view.know(key, (candidate.kind, chosen.class_name, chosen.run_s))
        self.view.claim(key, chosen.lane, Waiting(key, chosen.demand, chosen.run_s, now_s), now_s)

    def finished(self, workload: Workload) -> None:
        """Learn from a Workload that ended; jobs of others are not known by kind."""
        key = f"{workload.metadata.namespace}/{workload.job}"
        self.routes.pop(key, None)
        known, ended = self.view.forget(key), workload.since("Finished")
        begun = workload.since("Admitted") or workload.since("QuotaReserved")
        if known is None or ended is None or begun is None:
            return
        run_s = (ended - begun).total_seconds()
        self.memory.learn(known[0], known[1], run_s)
        name, space = workload.job, workload.metadata.namespace
        because = f"ran {run_s:.0f} s"
        self.journal.write(
            Entry(self.now(), "finished", space, name, workload.spec.queue_name, known[1], "finished", because)
        )

    def policy(self, name: str) -> Policy:
        if name not in self._policies:
            own = self.settings
            self._policies[name] = policy(
                name, seed_settings=own.seed, finish_settings=own.finish, chain_settings=own.chain
            )
        return self._policies[name]


def _plain(situation: Situation, lane: str) -> Json:
    found, played = situation.figures[lane], situation.lanes[lane]
    return {
        "pending": found.pending,
        "reserving": found.reserving,
        "waiting_seen": len(played.waiting),
        "running_seen": len(played.running),
        "free_milli": dict(found.free),
        "active": found.active,
    }


def _origin(job: Json) -> Json:
    """The Job as it was handed in, kept in it so that a later move, even after a restart, can start from there."""
    metadata = {name: job["metadata"][name] for name in ("name", "labels", "annotations") if name in job["metadata"]}
    return {"apiVersion": job["apiVersion"], "kind": "Job", "metadata": metadata, "spec": job["spec"]}
