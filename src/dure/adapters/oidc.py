"""Signing in with an identity provider: OpenID Connect, authorization code flow with PKCE.

Called by `dure.api.sso`. The provider is asked for its description once, for its keys when a token names one that
is not known yet (that is how they are rotated), but not more often than every few seconds, whoever asks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import httpx
import msgspec

from dure.adapters.jwt import Jwks, PublicKey, claims_of, key_id, public_key
from dure.model.errors import InvalidInput, NotAllowed, Temporary

TIMEOUT_S = 10.0
# How far the provider's clock may be from ours.
SKEW_S = 60.0
# A token that names an unknown key makes us ask for keys at most this often.
KEYS_EVERY_S = 5.0
MAX_ANSWER = 256 * 1024


class Provider(NamedTuple):
    """`claim` is the one that names a person, as tenants' roles do."""

    issuer: str
    client_id: str
    client_secret: str
    claim: str = "email"


class _Description(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class Relying:
    """Our end of the flow. `wall` is real time; both clocks are given so that tests own them."""

    def __init__(
        self,
        provider: Provider,
        *,
        wall: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_address(provider.issuer)
        self.provider = provider
        self._wall, self._timer = wall, timer
        self._http = httpx.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False)
        self._lock = threading.Lock()
        self._about: _Description | None = None
        self._keys: dict[str, PublicKey] = {}
        self._asked = float("-inf")

    def close(self) -> None:
        self._http.close()

    def authorization_url(self, redirect: str, state: str, nonce: str, verifier: str) -> str:
        """Where to send the browser."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "response_type": "code",
            "client_id": self.provider.client_id,
            "redirect_uri": redirect,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._describe().authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    def redeem(self, code: str, redirect: str, verifier: str, nonce: str) -> str:
        """The name of the person whom the provider has let in."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "client_id": self.provider.client_id,
            "client_secret": self.provider.client_secret,
            "code_verifier": verifier,
        }
        found = self._ask("POST", self._describe().token_endpoint, _Tokens, data=form)
        return self.name_in(found.id_token, nonce)

    def name_in(self, token: str, nonce: str) -> str:
        """The person an ID token speaks of, after everything in it was checked (OpenID Connect Core, 3.1.3.7)."""
        claims = claims_of(token, self._key(key_id(token)))
        self._check_claims(claims, nonce)
        if claims.get("email_verified") is False and self.provider.claim == "email":
            raise NotAllowed("the provider has not verified this address")
        name = claims.get(self.provider.claim)
        if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
            raise NotAllowed(f"the token has no usable claim '{self.provider.claim}'")
        return name

    def _check_claims(self, claims: dict[str, Any], nonce: str) -> None:
        now_s = self._wall()
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self._describe().issuer or self.provider.client_id not in audiences:
            raise NotAllowed("the token is of another provider or for another program")
        if len(audiences) > 1 and claims.get("azp") != self.provider.client_id:
            raise NotAllowed("the token was made for another program")
        ends, begins = claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(ends, int | float) or not isinstance(begins, int | float):
            raise NotAllowed("the token does not say how long it holds")
        if now_s > ends + SKEW_S or now_s < begins - SKEW_S:
            raise NotAllowed(
                "the token has ended or does not hold yet", remedy="Check the clocks, then sign in again."
            )
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise NotAllowed("the token answers another sign-in")

    def _key(self, id_: str) -> PublicKey:
        with self._lock:
            if id_ not in self._keys and self._timer() - self._asked >= KEYS_EVERY_S:
                self._asked = self._timer()
                found = self._ask("GET", self._describe().jwks_uri, Jwks)
                # Keys that the provider has withdrawn open nothing any more.
                self._keys = {one.kid: key for one in found.keys if (key := public_key(one)) is not None}
            if id_ not in self._keys:
                raise NotAllowed("the token is signed with a key that the provider does not have")
            return self._keys[id_]

    def _describe(self) -> _Description:
        if self._about is None:
            issuer = self.provider.issuer.rstrip("/")
            about = self._ask("GET", f"{issuer}/.well-known/openid-configuration", _Description)
            if about.issuer.rstrip("/") != issuer:
                raise NotAllowed(f"the provider calls itself '{about.issuer[:200]}', not '{issuer}'")
            for address in (about.authorization_endpoint, about.token_endpoint, about.jwks_uri):
                _check_address(address)
            self._about = about
        return self._about

    def _ask(self, method: str, url: str, kind: Any, **rest: Any) -> Any:
        try:
            answer = self._http.request(method, url, **rest)
        except httpx.TransportError as error:
            raise Temporary(f"the identity provider does not answer: {error}") from error
        if answer.status_code >= 500:
            raise Temporary(f"the identity provider answers {answer.status_code}")
        if answer.status_code != 200 or len(answer.content) > MAX_ANSWER:
            raise NotAllowed(f"the identity provider refused: {answer.status_code}")
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except msgspec.MsgspecError as error:
            raise NotAllowed(f"the identity provider's answer cannot be read: {error}") from error


def _check_address(url: str) -> None:
    """Codes and keys travel there, so it is TLS; but for a provider on this very machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")):
        return
    raise InvalidInput(f"'{url[:200]}' is no address of an identity provider", remedy="Write https://HOST/PATH.")
