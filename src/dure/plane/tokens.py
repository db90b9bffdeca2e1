"""API tokens: made, rotated, revoked, checked. The store keeps digests; a secret is shown once and never again.

A token reads `dure_ID_SECRET`. It is found by its id and compared in constant time. The secret is 256 bits of chance,
so a plain digest is enough: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

import msgspec

from dure.model.errors import Conflict, InvalidInput, NotAllowed, NotFound
from dure.model.tenant import Role
from dure.model.token import Token, TokenView, TokenWish
from dure.model.units import DAY_S, Instant, Seconds
from dure.model.who import EVERY, Who
from dure.ports import StorePort

PREFIX = "dure"
LONGEST_DAYS = 3650.0
LONGEST_GRACE_S = 7 * DAY_S
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_FORM = re.compile(rf"{PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")


def create(store: StorePort, wish: TokenWish, by: Who, now_s: Instant) -> TokenView:
    """Nobody makes a token that may do more than they may themselves."""
    # Before anything is said about the tenant, which the caller may have no business to know.
    if not by.may(Role.ADMIN, wish.tenant):
        raise NotAllowed(f"you are no admin of '{wish.tenant[:80]}'", remedy="See what you may do: dure token whoami")
    _check_wish(store, wish)
    if any(one.name == wish.name and one.lives(now_s) for one in store.list_tokens()):
        raise Conflict(f"a token named '{wish.name}' is in use", remedy="Choose another name, or rotate that one.")
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    made = Token(
        id_,
        wish.name,
        wish.role,
        wish.tenant,
        _digest(secret),
        now_s,
        by.name,
        expires_s=now_s + wish.days * DAY_S,
    )
    store.write_token(made)
    return _view(made, secret)


def rotate(store: StorePort, id_: str, by: Who, now_s: Instant, grace_s: Seconds = 0.0) -> TokenView:
    """A new secret for the same token; the old one works on for `grace_s`. It expires when it would have."""
    if not 0 <= grace_s <= LONGEST_GRACE_S:
        raise InvalidInput(f"a grace of {grace_s:g} s is not between 0 and {LONGEST_GRACE_S:g} s")
    known = _own(store, id_, by)
    if not known.lives(now_s):
        raise Conflict(f"token '{known.name}' has ended", remedy="Make another: dure token create NAME")
    secret = secrets.token_urlsafe(32)
    turned = msgspec.structs.replace(
        known, digest=_digest(secret), previous=known.digest if grace_s else "", previous_until_s=now_s + grace_s
    )
    store.write_token(turned)
    return _view(turned, secret)


def revoke(store: StorePort, id_: str, by: Who, now_s: Instant) -> TokenView:
    """Fine if it was revoked already."""
    known = _own(store, id_, by)
    ended = known if known.revoked_s is not None else msgspec.structs.replace(known, revoked_s=now_s)
    if ended is not known:
        store.write_token(ended)
    return _view(ended)


def list_seen(store: StorePort, by: Who) -> tuple[TokenView, ...]:
    """Those of the tenants that `by` administers."""
    return tuple(_view(one) for one in store.list_tokens() if _administers(by, one))


def find(store: StorePort, id_: str, now_s: Instant) -> Token | None:
    """The token of this id while it lives."""
    known = store.fetch_token(id_)
    return known if known is not None and known.lives(now_s) else None


def split(candidate: str) -> tuple[str, str] | None:
    """Id and digest of the secret; None for what is no token at all."""
    found = _FORM.fullmatch(candidate)
    return (found[1], _digest(found[2])) if found else None


def opens(token: Token, digest: str, now_s: Instant) -> bool:
    now = hmac.compare_digest(digest, token.digest)
    before = hmac.compare_digest(digest, token.previous or "-") and now_s < token.previous_until_s
    return now or before


def _check_wish(store: StorePort, wish: TokenWish) -> None:
    if not _NAME.fullmatch(wish.name):
        raise InvalidInput(
            f"'{wish.name[:80]}' is no name of a token",
            remedy="Letters, digits, '.', '-' and '_', at most 63, beginning and ending with a letter or digit.",
        )
    if not 0 < wish.days <= LONGEST_DAYS:
        raise InvalidInput(f"a token cannot last {wish.days:g} days", remedy=f"At most {LONGEST_DAYS:g}.")
    if wish.tenant != EVERY and wish.tenant not in {one.name for one in store.list_tenants()}:
        raise NotFound(f"no tenant '{wish.tenant[:80]}'", remedy="See: dure get tenants")


def _own(store: StorePort, id_: str, by: Who) -> Token:
    """By id or name; somebody else's is as good as none."""
    seen = [one for one in store.list_tokens() if id_ in (one.id, one.name) and _administers(by, one)]
    if not seen:
        raise NotFound(f"no token '{id_[:80]}'", remedy="See: dure token list")
    # A name may be used again after its token has ended; the newest is meant.
    return next((one for one in seen if one.id == id_), seen[-1])


def _administers(by: Who, token: Token) -> bool:
    return by.may(Role.ADMIN, token.tenant)


def _view(token: Token, secret: str = "") -> TokenView:
    return TokenView(
        token.id,
        token.name,
        token.role,
        token.tenant,
        token.created_s,
        token.created_by,
        token.expires_s,
        token.revoked_s,
        f"{PREFIX}_{token.id}_{secret}" if secret else "",
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
