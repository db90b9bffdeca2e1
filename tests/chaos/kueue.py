"""A cluster with Kueue that outlives the gateway in front of it: an imitated API server that admits and runs Jobs.

As with a real one, a call that has arrived takes effect also when its caller dies before the answer. It knows what
the gateway uses: lists, watches, Jobs with preconditions, patches, and Workloads that follow Jobs. A Job that has
started takes no other queue. `ran` is every start of every Job.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.chaos.submissions import ORIGIN, RUN_S, Run
from tests.lab.kueue_objects import KUEUE, queues

QUEUE, GATE = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/admission-gated-by"
PRIORITY = "kueue.x-k8s.io/priority-class"
# Jobs that run at once, for each ClusterQueue; the gateway reads it as quota of devices or cores.
ROOM = {"gpu-cluster-queue": 2, "cpu-cluster-queue": 3, "other-gpu-queue": 1}
SPACE = "default"
LOOK_S = 0.02
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: chaos
clusters: [{name: chaos, cluster: {server: "URL"}}]
users: [{name: gateway, user: {}}]
contexts: [{name: chaos, context: {cluster: chaos, user: gateway}}]
"""
Json = dict[str, Any]


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Objects:
    """Everything the server has, by plural and key, and every change of it, in order."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.news = threading.Condition(self.lock)
        self.version = 0
        self.found: dict[str, dict[str, Json]] = {}
        self.changes: list[tuple[int, str, str, bytes]] = []

    def write(self, plural: str, one: Json, what: str = "MODIFIED") -> None:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.found.setdefault(plural, {})[_key(one)] = one
        self._tell(what, plural, one)

    def create(self, plural: str, one: Json) -> Json:
        metadata = one["metadata"]
        if _key(one) in self.found.get(plural, {}):
            raise Refused(409, f"{plural} {_key(one)} already exists")
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": _stamp()}
        self.write(plural, one, "ADDED")
        return one

    def fetch(self, plural: str, key: str) -> Json:
        if key not in self.found.get(plural, {}):
            raise Refused(404, f"{plural} {key} not found")
        return self.found[plural][key]

    def delete(self, plural: str, key: str, asked: Json | None = None) -> Json:
        one = self.fetch(plural, key)
        for name, wanted in ((asked or {}).get("preconditions") or {}).items():
            if one["metadata"][name] != wanted:
                raise Refused(409, f"{name} is {one['metadata'][name]}, not {wanted}")
        del self.found[plural][key]
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", plural, one)
        return one

    def _tell(self, what: str, plural: str, one: Json) -> None:
        self.changes.append((self.version, plural, what, json.dumps({"type": what, "object": one}).encode() + b"\n"))
        self.news.notify_all()


class QueueCluster:
    """The driver's end: `ran` in order, `left` whatever of the clients' Jobs has not ended."""

    def __init__(self, folder: Path) -> None:
        self.objects, self.ran, self.closed = Objects(), list[Run](), threading.Event()
        with self.objects.lock:
            for one in queues():
                self.objects.create(f"{one['kind'].lower()}s", _roomed(one))
        self._ends: dict[str, float] = {}
        self._server = _Server(("127.0.0.1", 0), type("Call", (_Call,), {"cluster": self}))
        self._server.daemon_threads = True
        self.kubeconfig = folder / "queues.kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG.replace("URL", f"http://127.0.0.1:{self._server.server_address[1]}"))
        self._threads = [
            threading.Thread(target=work, name="queue cluster", daemon=True)
            for work in (self._server.serve_forever, self._run)
        ]
        for thread in self._threads:
            thread.start()

    def left(self) -> list[str]:
        with self.objects.lock:
            return [key for key, one in self.objects.found.get("jobs", {}).items() if not _ended(one)]

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self.closed.wait(LOOK_S):
            with self.objects.lock:
                self._follow()
                self._finish()
                for queue in ROOM:
                    self._admit(queue)

    def _follow(self) -> None:
        """A Workload for each Job that is not gated, in the queue that its label names."""
        jobs, loads = self.objects.found.get("jobs", {}), self.objects.found.setdefault("workloads", {})
        for key in [key for key, load in loads.items() if not self._owned(load, jobs)]:
            self.objects.delete("workloads", key)
        for key, job in jobs.items():
            if GATE in job["metadata"]["annotations"] or _ended(job):
                continue
            if key not in loads:
                self.objects.create("workloads", _workload(job))
            elif job["spec"]["suspend"] and loads[key]["spec"]["queueName"] != job["metadata"]["labels"][QUEUE]:
                loads[key]["spec"]["queueName"] = job["metadata"]["labels"][QUEUE]
                self.objects.write("workloads", loads[key])

    def _owned(self, load: Json, jobs: dict[str, Json]) -> bool:
        job = jobs.get(_key(load))
        return job is not None and job["metadata"]["uid"] == load["metadata"]["ownerReferences"][0]["uid"]

    def _admit(self, queue: str) -> None:
        loads = self.objects.found.get("workloads", {}).values()
        mine = [load for load in loads if self._queue(load) == queue and not _has(load, "Finished")]
        waiting = [load for load in mine if not _has(load, "Admitted")]
        running = len(mine) - len(waiting)
        for load in sorted(waiting, key=self._place)[: ROOM[queue] - running]:
            running += 1
            load["status"]["admission"] = {"clusterQueue": queue}
            self._condition("workloads", load, "QuotaReserved", "Admitted")
            job = self.objects.fetch("jobs", _key(load))
            job["spec"]["suspend"] = False
            job["status"]["startTime"] = _stamp()
            self.objects.write("jobs", job)
            notes = job["metadata"]["annotations"]
            self._ends[_key(job)] = time.monotonic() + float(notes[RUN_S])
            self.ran.append(Run(notes[ORIGIN], job["metadata"]["name"], time.monotonic()))
        self._count(queue, running, len(mine) - running)

    def _finish(self) -> None:
        for key in [key for key, ends in self._ends.items() if ends <= time.monotonic()]:
            del self._ends[key]
            job = self.objects.found["jobs"].get(key)
            if job is not None:
                self._condition("jobs", job, "Complete")
                self._condition("workloads", self.objects.fetch("workloads", key), "Finished")

    def _condition(self, plural: str, one: Json, *kinds: str) -> None:
        found = [{"type": kind, "status": "True", "lastTransitionTime": _stamp()} for kind in kinds]
        one["status"]["conditions"] = [*one["status"].get("conditions", ()), *found]
        self.objects.write(plural, one)

    def _count(self, name: str, running: int, pending: int) -> None:
        """Only a change is told, as by the real one."""
        queue = self.objects.found["clusterqueues"][name]
        told = (running, pending)
        if (queue["status"]["reservingWorkloads"], queue["status"]["pendingWorkloads"]) != told:
            queue["status"] |= {
                "reservingWorkloads": running,
                "admittedWorkloads": running,
                "pendingWorkloads": pending,
            }
            self.objects.write("clusterqueues", queue)

    def _queue(self, load: Json) -> str:
        local = self.objects.found["localqueues"].get(f"{SPACE}/{load['spec']['queueName']}")
        return str(local["spec"]["clusterQueue"]) if local else ""

    def _place(self, load: Json) -> tuple[int, str, str]:
        labels = self.objects.fetch("jobs", _key(load))["metadata"]["labels"]
        known = self.objects.found.get("workloadpriorityclasses", {}).get(labels.get(PRIORITY, ""), {})
        return (-int(known.get("value", 0)), load["metadata"]["creationTimestamp"], load["metadata"]["name"])


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever is killed hangs up in the middle; that is what this is for."""


class _Call(BaseHTTPRequestHandler):
    cluster: ClassVar[QueueCluster]
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = urlsplit(self.path)
        params = {name: values[0] for name, values in parse_qs(asked.query).items()}
        if params.get("watch") == "true":
            self._watch(asked.path.rpartition("/")[2], int(params["resourceVersion"]))
            return
        try:
            with self.cluster.objects.lock:
                code, answer = 200, json.dumps(self._do(asked.path, json.loads(body) if body else {}))
        except Refused as error:
            code, answer = error.code, json.dumps({"message": str(error)})
        self._send(code, answer.encode())

    do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that the library calls

    def _do(self, path: str, body: Json) -> Json:
        objects = self.cluster.objects
        if path == "/apis/kueue.x-k8s.io":
            return {"versions": [{"version": KUEUE.rpartition("/")[2]}]}
        parts = path.split("/")[4:]
        space = parts[1] if parts[0] == "namespaces" else ""
        plural, *name = parts[2:] if space else parts
        key = "/".join(filter(None, (space, *name)))
        if self.command == "GET" and not name:
            items = list(objects.found.get(plural, {}).values())
            return {"metadata": {"resourceVersion": str(objects.version)}, "items": items}
        if self.command == "GET":
            return objects.fetch(plural, key)
        if self.command == "POST":
            body["metadata"] |= {"namespace": space} if space else {}
            return objects.create(plural, {"status": {}, **body})
        if self.command == "DELETE":
            return objects.delete(plural, key, body)
        return self._patch(plural, key, body)

    def _patch(self, plural: str, key: str, body: Json) -> Json:
        one = self.cluster.objects.fetch(plural, key)
        asked = (body.get("metadata", {}).get("labels") or {}).get(QUEUE)
        if plural == "jobs" and asked is not None and not one["spec"]["suspend"]:
            raise Refused(422, "the queue of a job that runs is immutable")
        made: Json = _merged(one, body)
        self.cluster.objects.write(plural, made)
        return made

    def _watch(self, plural: str, since: int) -> None:
        objects = self.cluster.objects
        self.close_connection = True
        try:
            self.send_response_only(200)
            self.send_header("Connection", "close")
            self.end_headers()
            while not self.cluster.closed.is_set():
                with objects.lock:
                    if objects.version <= since:
                        objects.news.wait(1.0)
                    lines = [line for at, of, _, line in objects.changes if at > since and of == plural]
                    since = objects.version
                if lines:
                    self.wfile.write(b"".join(lines))
        except OSError:
            return

    def _send(self, code: int, answer: bytes) -> None:
        try:
            self.send_response_only(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """What matters of the calls is in the objects."""


def _roomed(one: Json) -> Json:
    """With room for few Jobs, so that some always wait and may be moved."""
    if one["kind"] == "ClusterQueue":
        name = one["metadata"]["name"]
        for quota in one["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
            each = {"cpu": 4, "memory": 6, "nvidia.com/gpu": 1}[quota["name"]]
            quota["nominalQuota"] = f"{each * ROOM[name]}{'Gi' if quota['name'] == 'memory' else ''}"
        one["status"] = {
            "conditions": [{"type": "Active", "status": "True", "lastTransitionTime": _stamp()}],
            "reservingWorkloads": 0,
            "admittedWorkloads": 0,
            "pendingWorkloads": 0,
        }
    return {"status": {}, **one}


def _workload(job: Json) -> Json:
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "spec": {
            "queueName": metadata["labels"][QUEUE],
            "podSets": [{"count": 1, "template": {"spec": job["spec"]["template"]["spec"]}}],
            "active": True,
        },
        "status": {},
    }


def _merged(one: Any, body: Any) -> Any:
    """A merge patch; lists of containers by name, as a strategic one has it."""
    if isinstance(body, dict) and isinstance(one, dict):
        if body.get("$patch") == "replace":
            return {name: part for name, part in body.items() if name != "$patch"}
        merged = {**one, **{name: _merged(one.get(name), part) for name, part in body.items()}}
        return {name: part for name, part in merged.items() if part is not None}
    if isinstance(body, list) and isinstance(one, list):
        known = {part["name"]: part for part in one}
        return [*{**known, **{part["name"]: _merged(known.get(part["name"], {}), part) for part in body}}.values()]
    return body


def _key(one: Json) -> str:
    metadata = one["metadata"]
    return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def _has(one: Json, kind: str) -> bool:
    return any(found["type"] == kind for found in one["status"].get("conditions", ()))


def _ended(job: Json) -> bool:
    return _has(job, "Complete")


def _stamp() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
