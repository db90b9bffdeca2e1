"""Who may speak as the agent of a cluster: one-time join tokens, and the credential each of them buys.

Called by the REST routes and the gRPC service alike, so that both ways in have one door. A join token works for one
credential and only for its cluster; a credential only for the cluster it was given to. The store keeps digests of
both, never more.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time

import msgspec

from dure.model.catalogue import Catalogue
from dure.model.errors import NotAllowed, NotFound
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.membership import Credential, JoinToken, Membership, secret_digest
from dure.model.report import Report
from dure.model.units import Instant
from dure.ports import StorePort

TOKEN_S = 24 * 3600
_REDEEM = threading.Lock()


def new_join_token(store: StorePort, fleet: Fleet, name: str) -> JoinToken:
    check_member(fleet, name)
    token, expires_s = secrets.token_urlsafe(32), time.time() + TOKEN_S
    store.write_setting(_join_key(name), f"{secret_digest(token)} {expires_s:.0f}")
    return JoinToken(name, token, expires_s)


def redeem(store: StorePort, name: str, token: str, proposed: str = "") -> Credential:
    """Let the one-time token make `proposed`, a digest, that of the cluster's credential.

    Asked again with the same digest the answer is the same and nothing is written, because an answer may be lost; the
    token is no good for another. Without a proposal the plane makes the secret itself, and that answer comes once.
    """
    token_digest, again = secret_digest(token), Credential(name, "")
    # Strangers must not get as far as a transaction that writes; whoever does is looked at again inside it.
    if not _first(store, name, token_digest, proposed):
        return again
    with _REDEEM, store.together():
        if not _first(store, name, token_digest, proposed):
            return again
        secret = "" if proposed else secrets.token_urlsafe(32)
        own = proposed or secret_digest(secret)
        expires = (store.fetch_setting(_join_key(name)) or "").rpartition(" ")[2]
        store.write_setting(_agent_key(name), own)
        # No further line in the audit log: the credential is what was set.
        store.commit((), settings={_join_key(name): "", _joined_key(name): f"{token_digest} {own} {expires}"})
    return Credential(name, secret)


def check(store: StorePort, name: str, credential: str) -> None:
    known = store.fetch_setting(_agent_key(name)) or ""
    if not known or not hmac.compare_digest(known, secret_digest(credential)):
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


def _first(store: StorePort, name: str, token_digest: str, proposed: str) -> bool:
    """Whether the token is good and not used yet; False for the same use again."""
    if _stands(store.fetch_setting(_join_key(name)), token_digest):
        return True
    if proposed and _stands(store.fetch_setting(_joined_key(name)), f"{token_digest} {proposed}"):
        return False
    raise NotAllowed(
        f"the join token for '{name}' is wrong, used or too old", remedy=f"Make one: dure cluster join {name}"
    )


def _stands(kept: str | None, wanted: str) -> bool:
    """Whether a setting is this and has not ended; its end is its last word."""
    known, _, expires = (kept or "").rpartition(" ")
    return hmac.compare_digest(known, wanted) and float(expires) >= time.time()


def _join_key(name: str) -> str:
    return f"agent-join/{name}"


def _joined_key(name: str) -> str:
    """Which token was used for which credential, so that the agent may ask again."""
    return f"agent-joined/{name}"


def _agent_key(name: str) -> str:
    return f"agent/{name}"
