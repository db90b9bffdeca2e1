"""The shared devices of the embedded fleet: a virtual device for each, played while the fleet runs.

`LiveFleet` owns it and the API asks it. The fleet's clock is fast and kernels are short, so not every millisecond is
played: each turn, devices that somebody looks at play a window of their own time, and one other does. Nothing is
compiled before the first turn, which comes after the server is up; simulations never make one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from dure.device import board
from dure.model.errors import NotFound, Temporary
from dure.model.event import Event
from dure.model.units import Instant, Seconds
from dure.plane.bursting import FEEDBACK_SETTING
from dure.ports import StorePort
from dure.share.feedback import Said
from dure.watch.drift import Pair

if TYPE_CHECKING:
    from dure.device.tuning import Spoken
    from dure.device.virtual import VirtualDevice

WINDOW_MS = 250.0
FIRST_MS = 1500.0
"""A device that is seen for the first time plays this much, so that there is something to look at."""
WATCHED_S = 30.0
SYNC_S = 5.0


class SharedFleet:
    """`fleet_now` is the fleet's clock (feedback fades by it), `now` the real one (who is looking)."""

    def __init__(
        self, store: StorePort, fleet_now: Callable[[], Instant], now: Callable[[], Seconds], seed: int = 1
    ) -> None:
        self._store = store
        self._fleet_now = fleet_now
        self._now = now
        self._seed = seed
        self._lock = threading.Lock()
        self._devices: dict[str, VirtualDevice] = {}
        self._asked: dict[str, Seconds] = {}
        self._spoken: Spoken | None = None
        self._synced_s: Seconds | None = None
        self._turn = 0

    def turn(self) -> None:
        """Follow the fleet, then let some devices play."""
        with self._lock:
            now = self._now()
            if self._synced_s is None or now - self._synced_s >= SYNC_S:
                self._synced_s = now
                self._sync()
            names = sorted(self._devices)
            if not names:
                return
            self._turn = (self._turn + 1) % len(names)
            watched = {name for name, at in self._asked.items() if now - at < WATCHED_S}
            playing = (watched & self._devices.keys()) | {names[self._turn], self._first()}
        for name in sorted(playing):
            # One at a time and unlocked in between: whoever asks waits for one window at most.
            with self._lock:
                device = self._devices.get(name)
                if device is not None:
                    device.play(WINDOW_MS if device.now_ms() > 0.0 else FIRST_MS)

    def list_devices(self) -> tuple[board.ShareStatus, ...]:
        with self._lock:
            return tuple(board.status(self._devices[name]) for name in sorted(self._devices))

    def list_foretold(self) -> tuple[Pair, ...]:
        """How long parts of squads should have taken beside their neighbours, and took; by model."""
        with self._lock:
            told = [one for device in self._devices.values() for one in tuple(device.tuner.foretold)]
        return tuple(Pair(one.at_ms / 1000.0, one.model, one.predicted_ms, one.spent_ms) for one in told)

    def fetch_status(self, device: str | None = None) -> board.ShareStatus:
        with self._lock:
            return board.status(self._named(device), pairs=True)

    def set_policy(self, policy: str, device: str | None = None) -> board.ShareStatus:
        with self._lock:
            found = self._named(device)
            found.set_policy(policy)
            return board.status(found)

    def fetch_squads(self, after: int = 0, device: str | None = None) -> board.Squads:
        with self._lock:
            return board.squads(self._named(device), after)

    def fetch_timeline(self, window_ms: float, device: str | None = None) -> board.Timeline:
        with self._lock:
            return board.timeline(self._named(device), window_ms)

    def fetch_view(self, window_ms: float, device: str | None = None) -> board.ShareView:
        with self._lock:
            if not self._devices:
                return board.ShareView()
            shown = self._named(device if device in self._devices else None)
            return board.ShareView(
                tuple(sorted(self._devices)), board.status(shown), board.timeline(shown, window_ms)
            )

    def say(self, given: board.Feedback, device: str | None = None) -> board.Moved:
        """What is said of a workload counts on every device that it runs on."""
        with self._lock:
            found = self._named(device or self._home(given.tenant))
            moved = board.say(found, given)
        told = (
            f"{given.tenant}: feedback '{given.word}', latency target {moved.before_ms:g} -> {moved.target_ms:g} ms"
        )
        if moved.before_ms < 1e6:
            self._store.commit([], events=[Event(self._fleet_now(), "Feedback", told, workload=given.tenant)])
        return moved

    def _sync(self) -> None:
        """Devices come and go with the pods on them; what was learnt of those that stay is kept."""
        from dure.device.virtual import VirtualDevice
        from dure.embedded.tenancy import shared_devices, tenancy

        workloads = {record.spec.name: record.spec for record in self._store.list_workloads(ended=False)}
        kept: dict[str, VirtualDevice] = {}
        for name, view in shared_devices(self._store.list_reports()).items():
            found = tenancy(name, view, workloads)
            if found is None:
                continue
            config, loads = found
            before = self._devices.get(name)
            if before is not None and before.config.tenants == config.tenants:
                kept[name] = before
                continue
            kept[name] = VirtualDevice(config, loads, seed=self._seed, spoken=self._words())
            if before is not None:
                kept[name].tuner.inherit(before.tuner)
        self._devices = kept

    def _words(self) -> Spoken:
        from dure.device.tuning import Spoken

        if self._spoken is None:
            text = self._store.fetch_setting(FEEDBACK_SETTING)
            said = msgspec.json.decode(text, type=tuple[Said, ...]) if text else ()
            self._spoken = Spoken(lambda: self._fleet_now() * 1000.0, said, self._keep)
        return self._spoken

    def _keep(self, said: tuple[Said, ...]) -> None:
        self._store.write_setting(FEEDBACK_SETTING, msgspec.json.encode(said).decode())

    def _named(self, name: str | None) -> VirtualDevice:
        self._must_have_some()
        chosen = name or self._first()
        if chosen not in self._devices:
            some = ", ".join(sorted(self._devices)[:3])
            raise NotFound(f"no shared device '{chosen[:120]}'", remedy=f"There are for example: {some}.")
        self._asked[chosen] = self._now()
        return self._devices[chosen]

    def _home(self, tenant: str) -> str:
        for name in sorted(self._devices):
            if tenant in self._devices[name].waiting():
                return name
        self._must_have_some()
        raise NotFound(
            f"no shared device runs '{tenant[:120]}'", remedy="'dure share status' lists the tenants of a device."
        )

    def _first(self) -> str:
        """The one to show when none is named: most tenants with a promise, then most tenants."""
        return max(
            sorted(self._devices, reverse=True),
            key=lambda name: (
                sum(t.promise.latency_ms is not None for t in self._devices[name].config.tenants),
                len(self._devices[name].config.tenants),
            ),
        )

    def _must_have_some(self) -> None:
        if not self._devices:
            raise Temporary("no device of the fleet is shared now", remedy="Try again when more workloads run.")
