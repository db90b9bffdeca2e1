"""What was charged to whom: the ledger by day, tenant and cluster, as `dure bill` prints it."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter

from dure.api.answers import NameFilter, Page, plain
from dure.api.caller import who_of
from dure.api.service import service_of
from dure.model.errors import InvalidInput
from dure.model.units import DAY_S, Grams, Micros

Month = Annotated[
    str | None, QueryParameter(max_length=7, description="YYYY-MM, in UTC; without it the present one.")
]


class ChargeRow(msgspec.Struct, frozen=True):
    """`day` is a day of UTC; money is 1e-6 of the fleet's currency."""

    day: str
    tenant: str
    cluster: str
    micros: Micros
    carbon_g: Grams


@get("/v1/charges", tags=["fleet"])
async def list_charges(
    request: Request[Any, Any, Any], month: Month = None, tenant: NameFilter = None
) -> Response[Page[ChargeRow]]:
    """Every charge of a month by day, tenant and cluster; running workloads are charged every half hour."""
    backend = service_of(request).backend
    first, following = _month(month, backend.now())
    found = await asyncio.to_thread(backend.store.list_charges, first, following)
    return plain(
        Page(
            tuple(
                ChargeRow(_day(one.day).isoformat(), one.tenant, one.cluster, one.micros, one.carbon_mg / 1000)
                for one in found
                if who_of(request).sees(one.tenant) and tenant in (None, one.tenant)
            )
        )
    )


def _month(text: str | None, now_s: float) -> tuple[int, int]:
    """Its first day and the one after its last, as days since 1970."""
    try:
        first = (
            datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
            if text
            else datetime.fromtimestamp(now_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        )
        following = (first + timedelta(days=32)).replace(day=1)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"month '{text}' is not a month", remedy="Write it as 2026-11.") from error
    return int(first.timestamp() // DAY_S), int(following.timestamp() // DAY_S)


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


HANDLERS: list[HTTPRouteHandler] = [list_charges]
