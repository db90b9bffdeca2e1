"""The routes of the dashboard: the page and its files. The gate of the API stands in front of them too."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import jinja2
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

import dure
from dure.web.assets import Asset, assets, plotly_script, plotly_style_markers


@get("/", include_in_schema=False, sync_to_thread=False)
def fleet_page() -> Response[bytes]:
    return Response(_rendered(), media_type="text/html")


@get("/static/plotly.min.js", include_in_schema=False)
async def plotly_file(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _file(request, plotly_script())


@get("/static/{name:str}", include_in_schema=False, sync_to_thread=False)
def static_file(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    found = assets().get(name)
    if found is None:
        raise NotFoundException(f"no file '{name[:80]}'")
    return _file(request, found)


def pages() -> list[HTTPRouteHandler]:
    """What `dure.api.app.create_app` takes as its `pages`."""
    return [fleet_page, plotly_file, static_file]


def _file(request: Request[Any, Any, Any], asset: Asset) -> Response[bytes]:
    """Browsers ask again each time and mostly hear that nothing changed."""
    etag = f'"{asset.digest}"'
    headers = {"etag": etag, "cache-control": "private, no-cache", "content-type": asset.media_type}
    if request.headers.get("if-none-match") == etag:
        return Response(b"", status_code=304, headers=headers)
    return Response(asset.body, headers=headers)


@functools.cache
def _rendered() -> bytes:
    source = (resources.files("dure.web") / "templates" / "fleet.html").read_text("utf-8")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    return template.render(version=dure.__version__, style_markers=plotly_style_markers()).encode()
