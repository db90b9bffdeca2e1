"""The plane's credential kept in a Secret, for agents of which several share it.

Called by `dure agent --secret`. The Secret brings the one-time join token; whoever redeems it first writes the
credential beside it, and the others find it there.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import msgspec

from dure.adapters.kube.objects import Plain
from dure.adapters.kube.rest import Api
from dure.model.errors import InvalidInput, NotAllowed, NotFound
from dure.model.units import Seconds

TOKEN, CREDENTIAL = "join-token", "credential"
# How long the one who redeemed the token may take to write down what it bought.
PATIENCE_S = 30.0
LOOK_S = 0.5


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


def fetch_credential(
    api: Api,
    namespace: str,
    name: str,
    redeem: Callable[[str], str],
    *,
    wait: Callable[[Seconds], None] = time.sleep,
) -> str:
    """The kept credential; else the one that the Secret's token buys."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    refused: NotAllowed | None = None
    for _ in range(int(PATIENCE_S / LOOK_S)):
        found = _read(api, path)
        if CREDENTIAL in found:
            return found[CREDENTIAL]
        if refused is None:
            try:
                return _keep(api, path, redeem(_token(found, path)))
            except NotAllowed as error:
                refused = error
        wait(LOOK_S)
    assert refused is not None
    raise refused


def _read(api: Api, path: str) -> dict[str, str]:
    try:
        found = api.get(path, _Secret)
    except NotFound as error:
        raise InvalidInput("there is no such Secret", where=path, remedy="See 'dure render agent --help'.") from error
    return {key: base64.b64decode(value).decode() for key, value in found.data.items()}


def _token(found: dict[str, str], path: str) -> str:
    if TOKEN not in found:
        raise InvalidInput(f"the Secret has no key '{TOKEN}'", where=path, remedy="Get one: dure cluster join NAME")
    return found[TOKEN].strip()


def _keep(api: Api, path: str, credential: str) -> str:
    body = {"data": {CREDENTIAL: base64.b64encode(credential.encode()).decode()}}
    api.patch(path, body, Plain)
    return credential
