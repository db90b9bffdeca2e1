"""The live copy against a scripted API server: what is late, doubled, cut off or too old."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import httpx2
import msgspec
import pytest

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.objects import KubePod, Plain
from dure.adapters.kube.rest import Api
from dure.model.errors import Temporary

Answer = Callable[[], httpx2.Response]


def thing(name: str, version: int, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "labels": labels}}


def listed(version: int, *items: dict[str, object]) -> Answer:
    return lambda: httpx2.Response(200, json={"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def streamed(*events: tuple[str, dict[str, object]], cut: bytes = b"") -> Answer:
    lines = b"".join(json.dumps({"type": kind, "object": body}).encode() + b"\n" for kind, body in events)
    return lambda: httpx2.Response(200, content=lines + cut)


class Script:
    """Lists and watches in the given order; after the last watch the mirror is stopped."""

    def __init__(self, lists: list[Answer], watches: list[Answer]) -> None:
        self.lists, self.watches = iter(lists), iter(watches)
        self.over = threading.Event()
        self.versions: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if "watch" not in request.url.params:
            return next(self.lists)()
        self.versions.append(request.url.params["resourceVersion"])
        answer = next(self.watches, None)
        if answer is None:
            self.over.set()
            return httpx2.Response(503, text="over")
        return answer()


def play(script: Script) -> Mirror[Plain]:
    http = httpx2.Client(transport=httpx2.MockTransport(script), base_url="http://127.0.0.1")
    mirror = Mirror(Api(http), "/things", Plain, lambda: None)
    mirror.start()
    assert script.over.wait(30.0)
    mirror.stop()
    mirror.join()
    http.close()
    return mirror


def seen(mirror: Mirror[Plain]) -> dict[str, str]:
    return {name: one.metadata.resource_version for name, one in mirror.objects().items()}


def test_events_follow_the_list_and_the_next_watch_goes_on_where_the_last_ended() -> None:
    changes = streamed(("ADDED", thing("b", 6)), ("DELETED", thing("a", 7)), ("BOOKMARK", thing("", 9)))
    script = Script([listed(5, thing("a", 3))], [changes, streamed(("MODIFIED", thing("b", 10)))])
    assert seen(play(script)) == {"b": "10"}
    assert script.versions[:2] == ["5", "9"]


def test_a_version_that_is_too_old_leads_to_a_new_list_that_forgets_what_is_gone() -> None:
    expired = streamed(("ERROR", {"code": 410, "message": "too old"}))
    script = Script([listed(5, thing("a", 3), thing("b", 4)), listed(20, thing("b", 15))], [expired, streamed()])
    mirror = play(script)
    assert seen(mirror) == {"b": "15"}
    assert mirror.relists == 2


def test_a_line_that_is_cut_off_does_not_end_the_mirror() -> None:
    first = streamed(("ADDED", thing("a", 6)), cut=b'{"type": "ADDED", "obj')
    script = Script([listed(5)], [first, streamed(("ADDED", thing("b", 7)))])
    assert seen(play(script)) == {"a": "6", "b": "7"}


def test_what_comes_late_or_twice_changes_nothing() -> None:
    late = streamed(("ADDED", thing("a", 8)), ("MODIFIED", thing("a", 6)), ("ADDED", thing("a", 8)))
    mirror = play(Script([listed(5)], [late]))
    assert seen(mirror) == {"a": "8"}


def test_an_answer_to_a_write_is_seen_at_once_and_never_brings_back_what_was_deleted() -> None:
    mirror = play(Script([listed(5)], [streamed(("ADDED", thing("a", 6)), ("DELETED", thing("a", 9)))]))
    known = mirror.objects()
    assert known == {}
    mirror.note(_plain("a", 8))
    mirror.note(_plain("b", 7))
    assert seen(mirror) == {"b": "7"}


def _plain(name: str, version: int) -> Plain:
    return msgspec.convert(thing(name, version), Plain)


def test_a_bookmark_whose_lists_are_null_moves_the_version_on() -> None:
    bare = {"metadata": {"resourceVersion": "9"}, "spec": {"containers": None}}
    script = Script([listed(5)], [streamed(("BOOKMARK", bare)), streamed(("ADDED", thing("a", 10)))])
    http = httpx2.Client(transport=httpx2.MockTransport(script), base_url="http://127.0.0.1")
    mirror = Mirror(Api(http), "/pods", KubePod, lambda: None)
    mirror.start()
    assert script.over.wait(30.0)
    mirror.stop()
    mirror.join()
    http.close()
    assert script.versions[:2] == ["5", "9"]


def test_a_kind_that_the_server_does_not_know_counts_as_empty_only_where_that_is_fine() -> None:
    def unknown(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(404, json={"message": "the server could not find the requested resource"})

    with httpx2.Client(transport=httpx2.MockTransport(unknown), base_url="http://127.0.0.1") as http:
        spared = Mirror(Api(http), "/things", Plain, lambda: None, optional=True)
        spared.start()
        spared.wait_synced(30.0)
        assert spared.objects() == {}
        needed = Mirror(Api(http), "/things", Plain, lambda: None)
        with pytest.raises(Temporary):
            needed.wait_synced(0.0)
        spared.stop()
        spared.join()
