"""A live copy of one kind of object: list once, then watch, for as long as the process lives.

Who reads it sees levels, never edges, so an event that comes twice or late does no harm. Writers hand their answers
to `note`, so that the copy is never behind what this process itself has done. Resource versions of one kind are
compared as numbers, as Kubernetes allows since 1.35 and etcd has always given them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from dure.adapters.kube.objects import Meta, Plain
from dure.adapters.kube.rest import PAGE, Api, Gone, Watch
from dure.model.errors import NotAllowed, NotFound, Temporary
from dure.model.units import Seconds

# A server ends a watch after this long; a little chance keeps many watchers from coming back together.
WATCH_S = 290
SILENCE_S = 330.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
_KEPT_TOMBSTONES = 10_000

_log = structlog.get_logger("dure.kube")


class Kept(Protocol):
    @property
    def metadata(self) -> Meta: ...


K = TypeVar("K", bound=Kept)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "cursor": "continue"}):
    resource_version: str = ""
    cursor: str = ""


class Page(msgspec.Struct):
    metadata: _ListMeta
    items: tuple[msgspec.Raw, ...] = ()


class _Problem(msgspec.Struct):
    code: int = 0
    message: str = ""


class Mirror(Generic[K]):
    """`start`, then `wait_synced`; `objects` is a copy that the caller may keep."""

    def __init__(
        self,
        api: Api,
        path: str,
        kind: type[K],
        changed: Callable[[], None],
        selector: str = "",
        *,
        optional: bool = False,
    ) -> None:
        """`optional`: a server that does not know this kind, or does not show it to us, has none of it."""
        self.path = path
        self._optional = optional
        self._api = api
        self._kind = kind
        self._changed = changed
        self._selector = {"labelSelector": selector} if selector else {}
        self._lock = threading.Lock()
        self._objects: dict[str, K] = {}
        self._gone: dict[str, int] = {}
        self._version = ""
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._again = threading.Event()
        self._stream: Watch | None = None
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {path}", daemon=True)
        self.relists = 0
        self._heard_s: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._again.set()
        stream = self._stream
        if stream is not None:
            stream.stop()

    def refresh(self) -> None:
        """List anew; `wait_synced` then waits for a list that began after this call."""
        self._synced.clear()
        self._again.set()
        stream = self._stream
        if stream is not None:
            stream.stop()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join(5.0)

    def wait_synced(self, timeout_s: Seconds) -> None:
        """`Temporary` when the first list has not come in time; what the server refused is said as it is."""
        if self._synced.wait(timeout_s):
            return
        if isinstance(self._failure, NotAllowed):
            raise self._failure
        raise Temporary(f"no list of {self.path} after {timeout_s:g} s: {self._failure or 'no answer'}")

    @property
    def stale_s(self) -> Seconds:
        """0 while the watch is open, else the time since it was; infinite before the first one."""
        if self._stream is not None:
            return 0.0
        return float("inf") if self._heard_s is None else time.monotonic() - self._heard_s

    def objects(self) -> dict[str, K]:
        with self._lock:
            return dict(self._objects)

    def get(self, key: str) -> K | None:
        with self._lock:
            return self._objects.get(key)

    def note(self, found: K) -> None:
        """Take in an object that the server answered with; an older one than the one here is ignored."""
        if self._put(found):
            self._changed()

    def forget(self, key: str) -> None:
        """The server said that this object does not exist."""
        with self._lock:
            before = self._objects.pop(key, None)
        if before is not None:
            self._changed()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopped.is_set():
            try:
                if not self._version or self._again.is_set():
                    self._relist()
                self._watch()
                pause_s = FIRST_PAUSE_S
            except Gone:
                self._version = ""
            except Exception as error:
                if self._optional and isinstance(error, (NotFound, NotAllowed)):
                    self._synced.set()
                    pause_s = LONGEST_PAUSE_S
                # Whatever it was, a line cut off in the middle or a bug: a mirror that stands still would be worse.
                self._failure = error
                quiet = isinstance(error, Temporary) or (self._optional and isinstance(error, NotFound))
                if not quiet and not self._stopped.is_set():
                    _log.warning("watch failed, trying again", path=self.path, error=str(error))
                # A restarted server may forbid everything for a moment; jitter keeps clients from coming at once.
                if self._stopped.is_set():
                    return
                self._again.wait(pause_s * random.uniform(0.5, 1.5))
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    def _relist(self) -> None:
        """The whole list in pages, from one moment. What was written here meanwhile is kept."""
        self._again.clear()
        # Should this one fail, nothing but another list will do.
        self._version = ""
        found: dict[str, K] = {}
        cursor = version = ""
        while True:
            params = {"limit": str(PAGE), **self._selector, **({"continue": cursor} if cursor else {})}
            page = self._api.get(self.path, Page, **params)
            for raw in page.items:
                one = msgspec.json.decode(raw, type=self._kind)
                found[one.metadata.key] = one
            version = version or page.metadata.resource_version
            cursor = page.metadata.cursor
            if not cursor:
                break
        with self._lock:
            for key, mine in self._objects.items():
                if _number(mine) > int(version) or (key in found and _number(mine) > _number(found[key])):
                    found[key] = mine
            self._objects = {key: one for key, one in found.items() if self._gone.get(key, 0) < _number(one)}
            self._gone = {key: at for key, at in self._gone.items() if at > int(version)}
        self._version = version
        self.relists += 1
        if not self._again.is_set():
            self._synced.set()
        self._changed()

    def _watch(self) -> None:
        params = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S + random.randrange(30)),
            **self._selector,
        }
        self._stream = self._api.watch(self.path, params, SILENCE_S)
        if self._stopped.is_set() or self._again.is_set():
            self._stream.stop()
        try:
            for line in self._stream:
                self._take(msgspec.json.decode(line, type=_Event))
        finally:
            self._stream = None
            self._heard_s = time.monotonic()

    def _take(self, event: _Event) -> None:
        if event.type == "ERROR":
            problem = msgspec.json.decode(event.object, type=_Problem)
            if problem.code == 410:
                raise Gone(problem.message)
            raise Temporary(f"the watch of {self.path} ended: {problem.message}")
        if event.type == "BOOKMARK":
            # Its object has nothing but a version: what is a list elsewhere may be null here.
            self._version = msgspec.json.decode(event.object, type=Plain).metadata.resource_version
            return
        found = msgspec.json.decode(event.object, type=self._kind)
        fresh = self._drop(found) if event.type == "DELETED" else self._put(found)
        self._version = found.metadata.resource_version
        if fresh:
            self._changed()

    def _put(self, found: K) -> bool:
        key, number = found.metadata.key, _number(found)
        with self._lock:
            before = self._objects.get(key)
            if self._gone.get(key, 0) >= number or (before is not None and _number(before) >= number):
                return False
            self._objects[key] = found
            return True

    def _drop(self, found: K) -> bool:
        key, number = found.metadata.key, _number(found)
        with self._lock:
            before = self._objects.get(key)
            self._gone[key] = number
            if len(self._gone) > _KEPT_TOMBSTONES:
                self._gone.pop(next(iter(self._gone)))
            if before is None or _number(before) > number:
                return False
            del self._objects[key]
            return True


def _number(found: Kept) -> int:
    return int(found.metadata.resource_version or 0)
