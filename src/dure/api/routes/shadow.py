"""A second placement policy beside the live one: switch it on, read what it would have done, switch it off."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, delete, get, put
from litestar.handlers import HTTPRouteHandler

from dure.api.answers import Name, Page, plain
from dure.api.service import service_of
from dure.model.errors import NotFound
from dure.model.policy import Policy, Verb
from dure.model.shadow import SHADOW_SETTING, Shadow
from dure.place.settings import settings_of


@put("/v1/shadow/{name:str}", tags=["shadow"])
async def start_shadow(request: Request[Any, Any, Any], name: Name) -> Response[Shadow]:
    """Let the named policy (one that was applied, or a method: regret, ruin, exact, rolling) decide beside."""
    backend = service_of(request).backend
    policies = await asyncio.to_thread(backend.store.list_policies)
    known = next((one for one in policies if one.name == name and one.verb is Verb.PLACE), None)
    policy = known or Policy(name, Verb.PLACE, algorithm=name)
    settings_of(policy)
    shadow = Shadow(policy, backend.now())
    await asyncio.to_thread(backend.store.write_setting, SHADOW_SETTING, msgspec.json.encode(shadow).decode())
    return plain(shadow)


@get("/v1/shadow", tags=["shadow"])
async def fetch_shadow(request: Request[Any, Any, Any]) -> Response[Shadow]:
    """What the shadow would have done since it was switched on. It acts on nothing."""
    kept = await asyncio.to_thread(service_of(request).backend.store.fetch_setting, SHADOW_SETTING)
    if not kept:
        raise NotFound("no policy decides beside the live one", remedy="Switch one on: dure shadow POLICY")
    return plain(msgspec.json.decode(kept, type=Shadow))


@get("/v1/shadows", tags=["shadow"])
async def list_shadows(request: Request[Any, Any, Any]) -> Response[Page[Shadow]]:
    """The shadow that is on as a list of one, or an empty list."""
    kept = await asyncio.to_thread(service_of(request).backend.store.fetch_setting, SHADOW_SETTING)
    return plain(Page((msgspec.json.decode(kept, type=Shadow),) if kept else ()))


@delete("/v1/shadow", tags=["shadow"], status_code=200)
async def stop_shadow(request: Request[Any, Any, Any]) -> Response[dict[str, bool]]:
    """Switch the shadow off; fine if there is none."""
    await asyncio.to_thread(service_of(request).backend.store.write_setting, SHADOW_SETTING, "")
    return plain({"on": False})


HANDLERS: list[HTTPRouteHandler] = [start_shadow, fetch_shadow, list_shadows, stop_shadow]
