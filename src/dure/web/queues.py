"""The page of the gateway: queues as live bars, decisions, moved jobs. `dure gateway serve` hands it to its app."""

from __future__ import annotations

import functools
from importlib import resources

import jinja2
from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

import dure
from dure.web.pages import static_file


@get("/", include_in_schema=False, sync_to_thread=False)
def queues_page() -> Response[bytes]:
    return Response(_rendered(), media_type="text/html")


def gateway_pages() -> list[HTTPRouteHandler]:
    return [queues_page, static_file]


@functools.cache
def _rendered() -> bytes:
    source = (resources.files("dure.web") / "templates" / "queues.html").read_text("utf-8")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    return template.render(version=dure.__version__).encode()
