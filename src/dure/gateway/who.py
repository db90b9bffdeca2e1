"""Who asks: a bearer token is shown to the API server, which says whose it is; the gateway then acts as that user.

What the user may create where is decided by the cluster's own RBAC, nowhere else.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

from litestar.exceptions import NotAuthorizedException

from dure.adapters.kube.rest import Api
from dure.gateway.desk import Caller

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
KEPT_S = 60.0
MOST_KEPT = 4096


class Doorman:
    """`everybody` lets callers without a token act as the gateway itself (a trusted network, tests)."""

    def __init__(self, api: Api, *, everybody: bool) -> None:
        self._api = api
        self._everybody = everybody
        self._known: dict[bytes, tuple[float, Caller]] = {}
        self._lock = threading.Lock()

    def caller(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if not authorization:
            if self._everybody:
                return Caller()
            raise NotAuthorizedException("no token; send 'Authorization: Bearer TOKEN' of the cluster")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthorizedException("only bearer tokens are understood")
        return self._review(token.strip())

    def _review(self, token: str) -> Caller:
        digest, now = hashlib.sha256(token.encode()).digest(), time.monotonic()
        with self._lock:
            known = self._known.get(digest)
        if known is not None and known[0] > now:
            return known[1]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status: dict[str, Any] = self._api.post(REVIEWS, review, dict).get("status", {})
        if not status.get("authenticated"):
            raise NotAuthorizedException("the cluster does not know this token")
        user = status["user"]
        caller = Caller(str(user["username"]), tuple(user.get("groups") or ()))
        with self._lock:
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[digest] = (now + KEPT_S, caller)
        return caller
