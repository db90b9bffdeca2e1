"""The database's own time, for leases: replicas whose clocks differ or jump then still agree on who leads."""

from __future__ import annotations

from sqlalchemy import Engine, text

from dure.adapters.store.trouble import translated
from dure.model.units import Instant


class DatabaseClock:
    """A `Teller`: leases are looked at, nobody waits by them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(reads=True)

    def now(self) -> Instant:
        with translated(), self._engine.connect() as db:
            return float(db.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
