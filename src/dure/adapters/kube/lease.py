"""Which of several agents of one cluster acts: leader election by a coordination.k8s.io Lease.

`Member` runs one beside its agent. Three walls stand between a paused leader and its cluster: `leads` is false as
soon as the lease could have run out, by this machine's own clock; every write asks `check` right before it is sent;
and binds and evictions carry `token`, which the API server compares with the Lease (see `fence`). Nobody's wall clock
is compared with anybody else's: a lease is over when it was seen unchanged for its whole duration.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from dure.adapters.kube import names
from dure.adapters.kube.objects import Meta, Plain
from dure.adapters.kube.rest import Api
from dure.model.errors import Conflict, DureError, NotFound, Temporary
from dure.model.units import Seconds

Json = dict[str, Any]
NAMESPACE = "dure-system"
NAME = "dure-agent"
DURATION_S = 15
RENEW_S = 2.0
LOOK_S = 1.0
# A leader stops this much earlier than another may start.
MARGIN_S = 3.0

_log = structlog.get_logger("dure.agent")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int = DURATION_S
    lease_transitions: int = 0


class KubeLease(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()


def boot_s() -> Seconds:
    """Seconds that a paused process and a sleeping machine cannot stop."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Election:
    """`identity` must belong to one living process at a time: whoever comes back with it needs not wait."""

    def __init__(
        self,
        api: Api,
        identity: str,
        gained: Callable[[], None] = lambda: None,
        *,
        now: Callable[[], Seconds] = boot_s,
        duration_s: int = DURATION_S,
    ) -> None:
        self._api = api
        self._identity = identity
        self._gained = gained
        self._now = now
        self._duration_s = duration_s
        self._base = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        self._term = 0
        self._until_s = 0.0
        self._seen: tuple[str, Seconds] = ("", 0.0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader election", daemon=True)

    @property
    def token(self) -> str:
        """Another in every term of office; the server compares it with the Lease."""
        return f"{self._identity}/{self._term}"

    def leads(self) -> bool:
        return self._now() < self._until_s

    def check(self) -> None:
        """`Temporary` unless this process may act at this moment."""
        if not self.leads():
            raise Temporary("this agent does not lead its cluster")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Gives the office back, so that nobody has to wait for it."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self.leads():
            return
        self._until_s = 0.0
        try:
            found = self._api.get(f"{self._base}/{NAME}", KubeLease)
            if self._mine(found):
                self._write(found, {"holderIdentity": ""})
        except DureError as error:
            _log.info("the lease runs out by itself", error=str(error))

    def turn(self) -> None:
        """Renew, take what is free, or look who has it."""
        asked_s = self._now()
        try:
            found = self._api.get(f"{self._base}/{NAME}", KubeLease)
        except NotFound:
            found = self._create()
        if found.metadata.resource_version != self._seen[0]:
            self._seen = (found.metadata.resource_version, self._now())
        mine = self._mine(found)
        if not mine:
            self._until_s = 0.0
            if not self._free(found):
                return
        term = found.spec.lease_transitions + (0 if mine else 1)
        moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration_s,
            "leaseTransitions": term,
            "renewTime": moment,
            **({} if mine else {"acquireTime": moment}),
        }
        try:
            self._write(found, spec)
        except Conflict:
            self._until_s = 0.0
            return
        self._term, self._until_s = term, asked_s + self._duration_s - MARGIN_S
        if not mine:
            _log.info("this agent leads its cluster now", holder=self._identity, term=term)
            self._gained()

    def _mine(self, found: KubeLease) -> bool:
        """Of this very process: an earlier one with the same identity had another term."""
        spec = found.spec
        return self._term > 0 and (spec.holder_identity, spec.lease_transitions) == (self._identity, self._term)

    def _free(self, found: KubeLease) -> bool:
        spec = found.spec
        if not spec.holder_identity or spec.holder_identity == self._identity:
            return True
        return self._now() - self._seen[1] >= spec.lease_duration_seconds

    def _create(self) -> KubeLease:
        """An empty one, for which all apply alike."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"leaseTransitions": 0, "leaseDurationSeconds": self._duration_s},
        }
        try:
            return self._api.post(self._base, body, KubeLease)
        except NotFound:
            self._api.apply(f"/api/v1/namespaces/{NAMESPACE}", namespace, Plain)
            return self._api.post(self._base, body, KubeLease)

    def _write(self, found: KubeLease, spec: Json) -> None:
        """Only if nobody wrote since: the resource version makes it a compare and set."""
        meta = {"resourceVersion": found.metadata.resource_version}
        written = self._api.patch(f"{self._base}/{NAME}", {"metadata": meta, "spec": spec}, KubeLease)
        self._seen = (written.metadata.resource_version, self._now())

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.turn()
            except DureError as error:
                _log.info("the lease cannot be asked", error=str(error))
            self._stopped.wait(RENEW_S if self.leads() else LOOK_S)


def fence() -> list[Json]:
    """Policies of the API server itself: who names a term of office must have it at that very moment.

    The process may have been paused between its own check and the request; the server was not. Everybody's binds and
    evictions pass through here, so whatever goes wrong with the policy itself (no Lease yet, a server that has only
    just started) must let them through.
    """
    claimed = f"'{names.LEADER}' in object.metadata.annotations"
    current = "params.spec.holderIdentity + '/' + string(params.spec.leaseTransitions)"
    policy: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding", "pods/eviction"],
                    }
                ]
            },
            "matchConditions": [{"name": "claims", "expression": f"has(object.metadata.annotations) && {claimed}"}],
            "validations": [
                {
                    "expression": f"object.metadata.annotations['{names.LEADER}'] == {current}",
                    "message": "this agent does not lead the cluster any more",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {
            "policyName": NAME,
            "validationActions": ["Deny"],
            "paramRef": {"name": NAME, "namespace": NAMESPACE, "parameterNotFoundAction": "Allow"},
        },
    }
    return [policy, binding]


def path_of(policy: Json) -> str:
    plural = {"ValidatingAdmissionPolicy": "policies", "ValidatingAdmissionPolicyBinding": "policybindings"}
    return f"/apis/{policy['apiVersion']}/validatingadmission{plural[policy['kind']]}/{policy['metadata']['name']}"
