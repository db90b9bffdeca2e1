"""Who may speak as the agent of a cluster: one-time join tokens, and the credential each of them buys.

Called by the REST routes and the gRPC service alike, so that both ways in have one door. A join token works once and
only for its cluster; a credential only for the cluster it was given to. The store keeps digests of both, never more.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.errors import NotAllowed, NotFound
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.membership import Credential, JoinToken, Membership
from dure.model.report import Report
from dure.model.units import Instant
from dure.ports import StorePort

TOKEN_S = 24 * 3600
_REDEEM = threading.Lock()


def new_join_token(store: StorePort, fleet: Fleet, name: str) -> JoinToken:
    check_member(fleet, name)
    token, expires_s = secrets.token_urlsafe(32), time.time() + TOKEN_S
    store.write_setting(_join_key(name), f"{_digest(token)} {expires_s:.0f}")
    return JoinToken(name, token, expires_s)


def redeem(store: StorePort, name: str, token: str) -> Credential:
    """The cluster's own credential for its one-time token."""
    with _REDEEM:
        digest, _, expires = (store.fetch_setting(_join_key(name)) or "").partition(" ")
        if not digest or not hmac.compare_digest(digest, _digest(token)) or float(expires) < time.time():
            raise NotAllowed(
                f"the join token for '{name}' is wrong, used or too old", remedy=f"Make one: dure cluster join {name}"
            )
        credential = secrets.token_urlsafe(32)
        store.write_setting(_agent_key(name), _digest(credential))
        store.write_setting(_join_key(name), "")
    return Credential(name, credential)


def check(store: StorePort, name: str, credential: str) -> None:
    known = store.fetch_setting(_agent_key(name)) or ""
    if not known or not hmac.compare_digest(known, _digest(credential)):
        raise NotAllowed(f"this is not the credential of the agent of '{name}'", remedy=f"dure cluster join {name}")


def check_report(report: Report, name: str) -> None:
    if report.cluster != name:
        raise NotAllowed(f"the agent of '{name}' cannot report for '{report.cluster}'")


def timely(report: Report, now_s: Instant) -> Report:
    """As of now at the latest: an agent whose clock is ahead must not seem to have seen what it cannot have.

    A placement that was taken back counts as gone once a later report shows nothing of it.
    """
    return report if report.at_s <= now_s else msgspec.structs.replace(report, at_s=now_s)


def membership_of(fleet: Fleet, catalogue: Catalogue, name: str) -> Membership:
    return Membership(check_member(fleet, name), msgspec.structs.replace(catalogue, templates={}))


def bearer(authorization: str) -> str:
    """The secret of an Authorization header; empty when it is something else."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def check_member(fleet: Fleet, name: str) -> ClusterSpec:
    spec = fleet.cluster(name)
    if spec is None:
        raise NotFound(f"no cluster '{name}' in the fleet", remedy="Add it to the fleet file, then join.")
    return spec


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _join_key(name: str) -> str:
    return f"agent-join/{name}"


def _agent_key(name: str) -> str:
    return f"agent/{name}"
