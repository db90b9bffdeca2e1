"""The plane's credential kept in a Secret, for agents of which several share it.

Called by `dure agent --secret`. The Secret brings the one-time join token. The first agent writes beside it what the
credential shall be, all redeem the token for that one, and whoever has the answer notes that it holds. So agents may
come at the same time, and a lost answer loses nothing.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from secrets import token_urlsafe

import msgspec

from dure.adapters.kube.objects import Meta, Plain
from dure.adapters.kube.rest import Api
from dure.adapters.redact import know
from dure.model.errors import Conflict, InvalidInput, NotAllowed, NotFound, Temporary
from dure.model.units import Seconds

TOKEN, PROPOSED, CREDENTIAL = "join-token", "proposed-credential", "credential"
# With a plane that is older than proposals: how long the one who redeemed the token may take to write it down.
PATIENCE_S = 30.0
LOOK_S = 0.5


class _Secret(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    data: dict[str, str] = {}

    def text(self, key: str) -> str:
        return base64.b64decode(self.data.get(key, "")).decode().strip()


def fetch_credential(
    api: Api,
    namespace: str,
    name: str,
    redeem: Callable[[str, str], str],
    *,
    wait: Callable[[Seconds], None] = time.sleep,
) -> str:
    """The kept credential; else the one that the Secret's token buys."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    refused: NotAllowed | None = None
    for _ in range(int(PATIENCE_S / LOOK_S)):
        found = _read(api, path)
        if held := found.text(CREDENTIAL):
            return know(held)
        token, proposed = _token(found, path), know(found.text(PROPOSED))
        if not proposed:
            _propose(api, path, found)
            continue
        if refused is None:
            try:
                return _keep(api, path, redeem(token, proposed))
            except NotAllowed as error:
                refused = error
        wait(LOOK_S)
    raise refused or Temporary("other agents write to the Secret all the time", where=path)


def _read(api: Api, path: str) -> _Secret:
    try:
        return api.get(path, _Secret)
    except NotFound as error:
        raise InvalidInput("there is no such Secret", where=path, remedy="See 'dure render agent --help'.") from error


def _token(found: _Secret, path: str) -> str:
    if TOKEN not in found.data:
        raise InvalidInput(f"the Secret has no key '{TOKEN}'", where=path, remedy="Get one: dure cluster join NAME")
    return found.text(TOKEN)


def _propose(api: Api, path: str, found: _Secret) -> None:
    """Only into the Secret as it was read: where two propose, the server takes one."""
    seen = {"resourceVersion": found.metadata.resource_version}
    try:
        api.patch(path, {"metadata": seen, "data": {PROPOSED: _encoded(token_urlsafe(32))}}, Plain)
    except Conflict:
        return


def _keep(api: Api, path: str, credential: str) -> str:
    """The proposal goes: what is held is said once."""
    api.patch(path, {"data": {CREDENTIAL: _encoded(know(credential)), PROPOSED: None}}, Plain)
    return credential


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
