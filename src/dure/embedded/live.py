"""The embedded fleet against a running clock, with its state kept in a folder.

The store is the truth and survives everything. The imitated clusters are saved beside it every few seconds and at
the end; after a crash they are a little behind the store, which is what reconciliation is for.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
import structlog

from dure.adapters.clock import RealClock, ScaledClock
from dure.adapters.kube.reading import EVERY_S
from dure.adapters.memory.stream import arrivals, small_services, standing
from dure.adapters.metrics import SqliteMetrics
from dure.adapters.shapes import settle
from dure.adapters.store import SqlStore, open_store
from dure.adapters.store.clock import DatabaseClock
from dure.adapters.tracing import span
from dure.adapters.whole import write_whole
from dure.agent.identity import fetch_identity
from dure.embedded.demo import Stage
from dure.embedded.members import Members
from dure.embedded.sharing import SharedFleet
from dure.embedded.world import EmbeddedWorld
from dure.model.catalogue import Catalogue
from dure.model.errors import DureError, InvalidInput
from dure.model.fleet import Fleet
from dure.model.units import HOUR_S, Instant, Seconds
from dure.plane.desk import Desk
from dure.plane.doorway import Doorway
from dure.plane.retention import Retention

# A new fleet begins with the stream of the last hours, so that there is something to see at once.
BACKLOG_S = 3 * HOUR_S
# Real seconds between two turns of the loop, and between two saves.
TURN_S = 0.25
SAVE_S = 5.0
# Real seconds until the shared devices play for the first time (the server must be up), and between two turns.
SHARE_AFTER_S = 2.0
SHARE_S = 1.0
SHARE_STOP_S = 3.0
# The imitated world never gets further ahead of the loop than this in one turn. A report may then be two turns old
# before it counts as stale (300 s), however slow the machine.
LEASH_S = 120.0
# A replica that is gone is missed after this long; the others take over well within ten seconds.
REPLICA_LEASE_S = 5.0

_log = structlog.get_logger("dure.embedded")


class Saved(msgspec.Struct, frozen=True):
    """What is kept of the imitated world: its time, how far the stream was read, each cluster's own bytes."""

    now_s: Instant
    fed_until_s: Instant
    clusters: dict[str, bytes]


def _office(store: SqlStore, members: Members, real: RealClock) -> dict[str, Any]:
    """How this process gets to lead. Alone it always does, also right after a restart; of several replicas on one
    PostgreSQL each has a name of its own, and they go by the database's clock."""
    if store.engine.dialect.name != "postgresql" or not members.outside:
        return {"lease_clock": real}
    holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
    return {"lease_clock": DatabaseClock(store.engine), "holder": holder, "lease_s": REPLICA_LEASE_S}


class LiveFleet:
    """Owns the loop's thread. `desk` is what the API serves."""

    def __init__(
        self,
        fleet: Fleet,
        catalogue: Catalogue,
        state: Path,
        *,
        speed: float,
        seed: int = 1,
        store_url: str = "",
        keep_s: Seconds | None = None,
        most_waiting: int | None = None,
        counters_s: Seconds = EVERY_S,
    ) -> None:
        settle()
        state.mkdir(parents=True, exist_ok=True)
        self._file, self._mark = state / "world.msgpack", state / "audit.mark"
        self.store: SqlStore = open_store(store_url or f"sqlite:///{state / 'dure.db'}")
        self.samples = SqliteMetrics(state / "metrics.db")
        self._real = RealClock()
        saved = self._load()
        self.members = Members(
            fleet, catalogue, self.store, self._real, fetch_identity(state / "agent.id"), counters_s
        )
        if self.members.outside:
            # Real clusters live in real time, and their owner's workloads are all there is.
            speed, saved = 1.0, None
        leash_s = math.inf if self.members.outside else LEASH_S
        self.clock = ScaledClock(speed, saved.now_s if saved else self._begin_s(), leash_s)
        self.fleet, self.catalogue, self.seed = fleet, catalogue, seed
        self.world = EmbeddedWorld(
            fleet,
            catalogue,
            self.store,
            self.clock,
            seed=seed,
            speed=speed,
            **_office(self.store, self.members, self._real),
        )
        self.desk.doorway = Doorway(self.store, most_waiting)
        self._fed_until_s = saved.fed_until_s if saved else self.clock.now() - BACKLOG_S
        if saved is not None:
            self._restore(saved)
        if not self.members.outside:
            self.world.submit(standing(fleet, catalogue))
            if fleet.demo:
                self.world.submit(small_services(fleet, catalogue))
        self.shares = SharedFleet(self.store, self.clock.now, self._real.now, seed)
        self._stage = Stage(state, self.world, fleet, catalogue)
        self._retention = Retention(self.store, keep_s) if keep_s is not None else None
        self._thread = threading.Thread(target=self._run, name="dure-loop", daemon=True)
        self._sharing = threading.Thread(target=self._share, name="dure-share", daemon=True)

    @property
    def desk(self) -> Desk:
        return self.world.desk

    def start(self) -> None:
        self.members.start()
        self._thread.start()
        self._sharing.start()

    def stop(self) -> None:
        """Finish the turn that is under way, save, close."""
        self.members.stop()
        self.clock.stop()
        self._real.stop()
        self._thread.join()
        # It may be compiling its policies for the first time, which nobody has to wait for.
        self._sharing.join(SHARE_STOP_S)
        self._try_save()
        self.samples.close()
        self.store.close()

    def turn(self) -> None:
        """What has arrived is submitted; agents and plane turn once. One bad turn must not end the loop."""
        try:
            now_s = self.clock.beat()
            if self.members.outside:
                self.world.nudge()
            else:
                arrived = arrivals(self.fleet, self.catalogue, self.seed, self._fed_until_s, now_s)
                self.world.submit([workload for _, workload in arrived])
                self._stage.turn(now_s)
            self._fed_until_s = now_s
            with span("plane.turn", at_s=now_s):
                self.world.step()
            if self._retention is not None and (cut := self._retention.turn(now_s)):
                _log.info("cut off the past", before_s=cut.cut_s, lines=cut.lines, decisions=cut.decisions)
        except DureError as error:
            _log.warning("turn failed, trying again", error=str(error))
        except Exception as error:
            # A fault of ours; whatever it is, a loop that has ended helps nobody.
            _log.error("turn failed, trying again", exc_info=error)

    def _run(self) -> None:
        next_save_s = self._real.now() + SAVE_S
        while True:
            self.turn()
            if self._real.now() >= next_save_s:
                self._try_save()
                next_save_s = self._real.now() + SAVE_S
            if not self._real.wait(TURN_S):
                return

    def _share(self) -> None:
        wait_s = SHARE_AFTER_S
        while self._real.wait(wait_s):
            wait_s = SHARE_S
            try:
                self.shares.turn()
            except Exception as error:
                # The rest of the fleet must not suffer; a store that was closed meanwhile is not even news.
                if self._real.wait(0.0):
                    _log.warning("shared devices wait for the next turn", error=str(error))

    def _try_save(self) -> None:
        """A disk that is full or read-only must not end the loop; the store says what it can no longer take."""
        try:
            self._save()
        except (OSError, DureError) as error:
            _log.warning("the imitated clusters are not saved, trying again", error=str(error))

    def _save(self) -> None:
        clusters = {name: cluster.save() for name, cluster in self.world.clusters.items()}
        body = msgspec.msgpack.encode(Saved(self.clock.now(), self._fed_until_s, clusters))
        write_whole(self._file, body)
        # Outside of the database on purpose: who alters the log there has not altered this.
        write_whole(self._mark, msgspec.json.encode(self.store.audit_mark()))

    def _load(self) -> Saved | None:
        if not self._file.exists():
            return None
        try:
            return msgspec.msgpack.decode(self._file.read_bytes(), type=Saved)
        except msgspec.MsgspecError as error:
            raise InvalidInput(
                f"the saved fleet cannot be read: {error}",
                where=str(self._file),
                remedy="Move the file away to start with fresh clusters; workloads and history are kept.",
            ) from error

    def _begin_s(self) -> Instant:
        """Now, or the newest moment on record: where the machine's clock was set back, Dure's own still goes on."""
        now_s, known_s = self._real.now(), max((one.at_s for one in self.store.list_reports()), default=0.0)
        if known_s > now_s + 1.0:
            _log.warning("the clock was set back; going on from the newest record", behind_s=round(known_s - now_s))
        return max(now_s, known_s)

    def _restore(self, saved: Saved) -> None:
        for name, data in saved.clusters.items():
            if name in self.world.clusters:
                self.world.clusters[name].restore(data)
