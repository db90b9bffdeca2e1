"""Reading signed tokens (JWS, RFC 7515) of an identity provider: RS256 and ES256, nothing else.

The algorithm is that of the key, never the one a token asks for: a token signed with a public key as if it were a
shared secret, or not signed at all, is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from dure.model.errors import NotAllowed

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
# Shorter keys can be broken.
_SMALLEST_RSA = 2048
_LONGEST = 16 * 1024


class Jwk(msgspec.Struct, frozen=True):
    """A public key as providers publish it; fields of other kinds are left out."""

    kty: str
    kid: str = ""
    use: str = "sig"
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""


class Jwks(msgspec.Struct, frozen=True):
    keys: tuple[Jwk, ...]


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str = ""
    crit: tuple[str, ...] = ()


def key_id(token: str) -> str:
    """Which key it says it is signed with; nothing is believed yet."""
    return _header(token).kid


def public_key(jwk: Jwk) -> PublicKey | None:
    """None for a kind that is not used here."""
    try:
        if jwk.kty == "RSA" and jwk.use == "sig":
            key = rsa.RSAPublicNumbers(_number(jwk.e), _number(jwk.n)).public_key()
            return key if key.key_size >= _SMALLEST_RSA else None
        if jwk.kty == "EC" and jwk.crv == "P-256" and jwk.use == "sig":
            return ec.EllipticCurvePublicNumbers(_number(jwk.x), _number(jwk.y), ec.SECP256R1()).public_key()
    except ValueError:
        return None
    return None


def claims_of(token: str, key: PublicKey) -> dict[str, Any]:
    """What a token says, once its signature is found to be that of the key."""
    header = _header(token)
    signed, _, mark = token.rpartition(".")
    wanted = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
    if header.alg != wanted or header.crit:
        raise NotAllowed("the token is not signed in a way that is accepted here")
    try:
        _verify(key, _bytes(mark), signed.encode())
        found = msgspec.json.decode(_bytes(signed.partition(".")[2]), type=dict[str, Any])
    except (InvalidSignature, ValueError, msgspec.MsgspecError) as error:
        raise NotAllowed("the signature of the token is wrong") from error
    return found


def _verify(key: PublicKey, mark: bytes, signed: bytes) -> None:
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(mark, signed, padding.PKCS1v15(), hashes.SHA256())
        return
    if len(mark) != 64:
        raise InvalidSignature
    pair = int.from_bytes(mark[:32], "big"), int.from_bytes(mark[32:], "big")
    key.verify(encode_dss_signature(*pair), signed, ec.ECDSA(hashes.SHA256()))


def _header(token: str) -> _Header:
    if len(token) > _LONGEST or token.count(".") != 2 or not token.isascii():
        raise NotAllowed("this is not a signed token")
    try:
        return msgspec.json.decode(_bytes(token.partition(".")[0]), type=_Header)
    except (ValueError, msgspec.MsgspecError) as error:
        raise NotAllowed("this is not a signed token") from error


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
