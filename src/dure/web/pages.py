"""The routes of the dashboard: the page and its files. The gate of the API stands in front of them too."""

from __future__ import annotations

import functools
from typing import Any

import jinja2
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

import dure
from dure.web.assets import Asset, assets, plotly_script, plotly_style_markers

VIEWS = (("/", "Fleet"), ("/money", "Money"), ("/promises", "Promises"), ("/past", "Past"))


@get("/", include_in_schema=False, sync_to_thread=False)
def fleet_page() -> Response[bytes]:
    return _page("fleet.html", "/")


@get("/money", include_in_schema=False, sync_to_thread=False)
def money_page() -> Response[bytes]:
    return _page("money.html", "/money")


@get("/promises", include_in_schema=False, sync_to_thread=False)
def promises_page() -> Response[bytes]:
    return _page("promises.html", "/promises")


@get("/past", include_in_schema=False, sync_to_thread=False)
def past_page() -> Response[bytes]:
    return _page("past.html", "/past")


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
    return [fleet_page, money_page, promises_page, past_page, plotly_file, static_file]


def _file(request: Request[Any, Any, Any], asset: Asset) -> Response[bytes]:
    """Browsers ask again each time and mostly hear that nothing changed."""
    etag = f'"{asset.digest}"'
    headers = {"etag": etag, "cache-control": "private, no-cache", "content-type": asset.media_type}
    if request.headers.get("if-none-match") == etag:
        return Response(b"", status_code=304, headers=headers)
    return Response(asset.body, headers=headers)


def _page(name: str, here: str) -> Response[bytes]:
    return Response(_rendered(name, here), media_type="text/html")


@functools.cache
def _rendered(name: str, here: str) -> bytes:
    loader = jinja2.PackageLoader("dure.web")
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template(name)
    known = {"version": dure.__version__, "style_markers": plotly_style_markers(), "views": VIEWS, "here": here}
    return made.render(known).encode()
