"""One resource as a device plugin: lists its units, says which to prefer, and what a container gets with them.

Made by `runner` for each resource name. A change wakes everybody who listens, so a unit that fell ill is known to the
kubelet at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from dure.adapters.kubelet import device_plugin as api
from dure.adapters.kubelet.service import Method
from dure.device.plugin.inject import injected
from dure.device.plugin.node import NodeConfig, Unit
from dure.device.plugin.prefer import preferred
from dure.model.errors import NotFound, Temporary

# Whether the stream is still wanted is looked at that often.
LISTEN_S = 1.0
OPTIONS = api.Options(get_preferred_allocation_available=True)


class Resource:
    """`give` is called before the kubelet is answered, and may refuse."""

    def __init__(
        self, name: str, units: Sequence[Unit], config: NodeConfig, give: Callable[[tuple[str, ...]], None]
    ) -> None:
        self.name = name
        self._units = {unit.id: unit for unit in units}
        self._config = config
        self._give = give
        self._changed = threading.Condition()
        self._ill: frozenset[str] = frozenset()
        self._closed = False

    @property
    def ill(self) -> frozenset[str]:
        return self._ill

    def methods(self) -> dict[str, Method]:
        return {
            "GetDevicePluginOptions": Method(api.Empty, lambda _: OPTIONS),
            "ListAndWatch": Method(api.Empty, self._listen, stream=True),
            "GetPreferredAllocation": Method(api.PreferenceRequest, self._prefer),
            "Allocate": Method(api.AllocateRequest, self._allocate),
        }

    def set_ill(self, ids: frozenset[str]) -> None:
        """Which of its units cannot be used now."""
        with self._changed:
            if ids != self._ill:
                self._ill = ids
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def listing(self) -> api.Listing:
        return api.Listing(tuple(self._listed(unit) for unit in self._units.values()))

    def _listen(self, _: api.Empty, alive: Callable[[], bool]) -> Iterator[api.Listing]:
        told: api.Listing | None = None
        while alive() and not self._closed:
            listing = self.listing()
            if listing != told:
                yield listing
                told = listing
            with self._changed:
                if self.listing() == told:
                    self._changed.wait(LISTEN_S)

    def _listed(self, unit: Unit) -> api.Listed:
        numa = unit.device.numa
        topology = None if numa is None else api.Topology((api.NumaNode(numa),))
        return api.Listed(unit.id, api.UNHEALTHY if unit.id in self._ill else api.HEALTHY, topology)

    def _prefer(self, request: api.PreferenceRequest) -> api.PreferenceAnswer:
        return api.PreferenceAnswer(
            tuple(
                api.Preferred(preferred(self._units, one.available, one.must_include, one.size))
                for one in request.containers
            )
        )

    def _allocate(self, request: api.AllocateRequest) -> api.AllocateAnswer:
        asked = [one.ids for one in request.containers]
        for one in (name for ids in asked for name in ids):
            if one not in self._units:
                raise NotFound(f"this node has no unit '{one}' of {self.name}")
            if one in self._ill:
                raise Temporary(f"unit {one} is not healthy", remedy="Its pod is placed again when it fails.")
        self._give(tuple(one for ids in asked for one in ids))
        return api.AllocateAnswer(tuple(injected([self._units[one] for one in ids], self._config) for ids in asked))
