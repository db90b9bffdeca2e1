"""An order becomes priority classes on the Jobs that wait, with as few changes as it takes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dure.gateway.sorter import Sorter
from dure.model.errors import Conflict, NotAllowed
from dure.route.reroute import Plan
from dure.route.situation import Figures, Lane, Situation, Waiting
from tests.unit.gateway.test_desk import board, desk

PRIORITY = "kueue.x-k8s.io/priority-class"


class Classes:
    """Takes priority classes and labels; one class is there already."""

    def __init__(self, *, allowed: bool = True) -> None:
        self.values: dict[str, int] = {}
        self.labels: dict[str, str] = {}
        self.patches = 0
        self._allowed = allowed

    def post(self, path: str, body: dict[str, Any], kind: type) -> None:
        if not self._allowed:
            raise NotAllowed("workloadpriorityclasses is forbidden")
        name = body["metadata"]["name"]
        self.values[name] = body["value"]
        if name == "dure-rank-750":
            raise Conflict("it is there")

    def patch(self, path: str, body: dict[str, Any], kind: type) -> None:
        self.patches += 1
        self.labels[path.rpartition("/")[2]] = body["metadata"]["labels"][PRIORITY]

    def served(self) -> list[str]:
        return sorted(self.labels, key=lambda name: -self.values[self.labels[name]])


def sorter(api: Classes, *names: str) -> tuple[Sorter, Situation]:
    made, _ = desk(board())
    made.api = api  # type: ignore[assignment]
    for name in names:
        made.view.know(f"default/{name}", ("k", "c", 10.0))
    waiting = tuple(Waiting(f"default/{name}", {"gpu": 1}, 10.0, float(n)) for n, name in enumerate(names))
    lane = Lane("gpu", {"gpu": 4}, (), waiting, orderable=True)
    return Sorter(made), Situation(1000.0, {"gpu": lane}, {"gpu": Figures("gpu", {})})


def planned(*names: str) -> Plan:
    return Plan(orders={"gpu": tuple(f"default/{name}" for name in names)}, because="it ends sooner")


def test_each_job_gets_its_place_and_who_needs_none_is_left_alone() -> None:
    api = Classes()
    sort, seen = sorter(api, "a", "b", "c", "d")
    sort.sort(planned("c", "a", "b"), seen)
    assert api.served() == ["c", "a", "b"]
    assert "d" not in api.labels


def test_a_newcomer_is_put_in_between_and_nobody_else_is_touched() -> None:
    """The watch has not told the first places yet; what was written counts."""
    api = Classes()
    sort, seen = sorter(api, "a", "b", "c", "d")
    sort.sort(planned("c", "a", "b"), seen)
    api.patches = 0
    sort.sort(planned("c", "d", "a", "b"), seen)
    assert api.served() == ["c", "d", "a", "b"]
    assert api.patches == 1


def test_back_to_first_come_nobody_has_a_place() -> None:
    api = Classes()
    sort, seen = sorter(api, "a", "b", "c")
    sort.sort(planned("c"), seen)
    sort.sort(planned(), seen)
    assert api.labels == {"c": "dure-rank-000"}


def test_after_a_restart_places_are_known_from_the_queue() -> None:
    api = Classes()
    sort, seen = sorter(api, "a", "b")
    ranked = tuple(replace(job, rank=500 + 100 * n) for n, job in enumerate(seen.lanes["gpu"].waiting))
    sort.sort(planned("b", "a"), replace(seen, lanes={"gpu": replace(seen.lanes["gpu"], waiting=ranked)}))
    assert api.patches == 0


def test_without_the_right_to_make_classes_it_gives_up_once() -> None:
    api = Classes(allowed=False)
    sort, seen = sorter(api, "a", "b", "c")
    sort.sort(planned("c"), seen)
    assert (sort.allowed, api.patches) == (False, 0)
    sort.sort(planned("b"), seen)
    assert api.patches == 0
