"""The node keeper on a toy cluster: buys, waits for what boots, replaces before it stops, answers notices."""

from __future__ import annotations

from dure.agent.nodes import NodeKeeper, PoolRules
from dure.scale.nodes.budget import Budget
from dure.scale.nodes.lifecycle import Schedule
from dure.scale.nodes.spot import Guest
from dure.scale.nodes.state import NewNode, Node, Offer, Pod, Pool

SMALL = Offer("small", "a10g", (1000, 4000, 16_384), 1_000_000)
LARGE = Offer("large", "a10g", (4000, 48_000, 196_608), 3_500_000)
POOL = Pool("gpu", (SMALL, LARGE))


def pod(name: str) -> Pod:
    return Pod(name, (1000, 2000, 4096))


class Toy:
    """Machines boot when told to; evicted pods wait; waiting pods are put onto free nodes by `schedule`."""

    def __init__(self, *nodes: Node, waiting: tuple[Pod, ...] = ()) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.waiting = list(waiting)
        self.asked: list[NewNode] = []
        self.leaving: dict[str, str] = {}
        self.announced: dict[str, float] = {}
        self.log: list[tuple[str, str]] = []

    def fetch(self) -> tuple[tuple[Pod, ...], tuple[Node, ...]]:
        return tuple(self.waiting), tuple(self.nodes.values())

    def booting(self) -> int:
        return len(self.asked)

    def start(self, new: NewNode, instead_of: str = "") -> str:
        self.asked.append(new)
        self.log.append(("start", new.offer.type_name))
        return f"new-{len(self.log)}"

    def boot(self) -> None:
        for new in self.asked:
            name = f"node-{len(self.nodes)}-{new.offer.type_name}"
            self.nodes[name] = Node(name, new.pool, new.offer, new.offer.size)
        self.asked = []

    def schedule(self) -> None:
        for name, node in list(self.nodes.items()):
            while name not in self.leaving and self.waiting and node.free[0] >= 1000:
                node = Node(name, node.pool, node.offer, node.allocatable, (*node.pods, self.waiting.pop()))
                self.nodes[name] = node

    def stop(self, node: str, reason: str) -> None:
        self.leaving[node] = reason
        self.log.append(("stop", node))

    def stopping(self) -> dict[str, str]:
        return self.leaving

    def notices(self) -> dict[str, float]:
        return self.announced

    def guests(self, node: str) -> tuple[Guest, ...]:
        return tuple(Guest(one.name, 30.0) for one in self.nodes[node].pods)

    def mark(self, pod: str) -> None:
        self.log.append(("mark", pod))

    def evict(self, pod: str) -> bool:
        for name, node in self.nodes.items():
            gone = [one for one in node.pods if one.name == pod]
            left = tuple(one for one in node.pods if one.name != pod)
            self.nodes[name] = Node(name, node.pool, node.offer, node.allocatable, left)
            self.waiting += gone
        self.log.append(("evict", pod))
        return True

    def end(self, node: str) -> bool:
        if self.nodes[node].pods:
            return False
        del self.nodes[node]
        self.leaving = {name: why for name, why in self.leaving.items() if name != node}
        self.announced.pop(node, None)
        self.log.append(("end", node))
        return True


def test_pods_that_wait_get_machines_and_none_twice() -> None:
    toy = Toy(waiting=(pod("a"), pod("b")))
    keeper = NodeKeeper(toy, (POOL,))
    assert keeper.turn(0.0)
    first = len(toy.asked)
    assert first > 0
    assert keeper.turn(1.0)
    assert len(toy.asked) == first, "machines that boot are waited for"
    toy.boot()
    toy.schedule()
    assert not keeper.turn(2.0)


def test_a_dear_node_is_replaced_before_its_pod_leaves() -> None:
    toy = Toy(Node("big", "gpu", LARGE, LARGE.size, (pod("a"),)))
    keeper = NodeKeeper(toy, (POOL,))
    assert keeper.turn(0.0)
    assert toy.log == [("start", "small"), ("stop", "big")]
    assert keeper.turn(1.0)
    assert ("evict", "a") not in toy.log, "the replacement still boots"
    toy.boot()
    keeper.turn(2.0)
    toy.schedule()
    while keeper.turn(3.0):
        toy.schedule()
    assert [node.offer.type_name for node in toy.nodes.values()] == ["small"]
    assert toy.waiting == []


def test_a_notice_starts_the_replacement_first_and_evicts_when_requests_have_drained() -> None:
    toy = Toy(Node("spot", "gpu", SMALL, SMALL.size, (pod("a"),)))
    keeper = NodeKeeper(toy, (POOL,))
    toy.announced["spot"] = 1120.0
    keeper.turn(1000.0)
    assert toy.log == [("stop", "spot"), ("start", "small"), ("mark", "a")]
    keeper.turn(1031.0)
    assert ("evict", "a") in toy.log
    assert [line for line in toy.log if line[0] == "start"] == [("start", "small")], "one replacement"


def test_a_budget_of_nothing_keeps_even_empty_nodes() -> None:
    toy = Toy(Node("idle", "gpu", SMALL, SMALL.size))
    shut = {"gpu": PoolRules((Budget("0"),))}
    assert not NodeKeeper(toy, (POOL,), rules=shut).turn(0.0)
    assert NodeKeeper(toy, (POOL,), rules={"gpu": PoolRules((Budget("100%"),))}).turn(0.0)
    assert toy.log == [("stop", "idle")]


def test_a_node_that_is_too_old_is_replaced_whatever_the_budgets_say() -> None:
    toy = Toy(Node("old", "gpu", SMALL, SMALL.size, (pod("a"),), started_s=0.0))
    rules = {"gpu": PoolRules((Budget("0"),), expire_after_s=3600.0)}
    keeper = NodeKeeper(toy, (POOL,), rules=rules)
    assert not keeper.turn(3599.0)
    assert keeper.turn(3600.0)
    assert toy.log == [("start", "small"), ("stop", "old")]


def test_a_node_of_an_earlier_template_is_replaced_within_the_budgets_and_one_at_a_time() -> None:
    old = [Node(f"old-{n}", "gpu", SMALL, SMALL.size, (pod(f"p{n}"),), template="v1") for n in range(2)]
    toy = Toy(*old, Node("new", "gpu", SMALL, SMALL.size, (pod("p9"),), template="v2"))
    shut = {"gpu": PoolRules((Budget("0", ("Drifted",)),), template="v2")}
    assert not NodeKeeper(toy, (POOL,), rules=shut).turn(0.0)
    free = {"gpu": PoolRules((Budget("100%"),), template="v2")}
    keeper = NodeKeeper(toy, (POOL,), rules=free)
    assert [ending.node for ending in keeper.look(0.0).endings] == ["old-0", "old-1"]
    assert keeper.turn(0.0)
    assert toy.log == [("start", "small"), ("stop", "old-0")]
    assert keeper.turn(1.0)
    assert ("stop", "old-1") not in toy.log, "the first one is still there"


def test_out_of_hours_the_emptiest_nodes_go_and_none_are_bought() -> None:
    full = Node("full", "gpu", LARGE, LARGE.size, (pod("a"), pod("b")))
    toy = Toy(full, Node("half", "gpu", SMALL, SMALL.size, (pod("c"),)), waiting=(pod("d"),))
    # From 20:00 to 07:00 in Seoul one node may stay: 11:00 to 22:00 UTC.
    night = Schedule("0 20 * * *", 11 * 3600.0, 1, "Asia/Seoul")
    keeper = NodeKeeper(toy, (POOL,), rules={"gpu": PoolRules((Budget("0"),), schedules=(night,))})
    assert not keeper.look(10 * 3600.0).endings, "it is still day"
    at_night = 12 * 3600.0
    assert keeper.turn(at_night)
    assert toy.log == [("stop", "half")]
    assert keeper.turn(at_night + 1)
    toy.schedule()
    while keeper.turn(at_night + 2):
        toy.schedule()
    assert list(toy.nodes) == ["full"]
    assert "start" not in {what for what, _ in toy.log}
    toy.waiting.append(pod("e"))
    keeper.turn(23 * 3600.0)
    assert ("start", "small") in toy.log, "in the morning machines are bought again"


def test_what_nobody_wants_now_costs_nothing_at_night() -> None:
    toy = Toy(Node("idle", "gpu", SMALL, SMALL.size))
    none = Schedule("0 0 * * *", 3600.0, 0)
    keeper = NodeKeeper(toy, (POOL,), rules={"gpu": PoolRules((Budget("0"),), schedules=(none,))})
    while keeper.turn(60.0):
        pass
    assert toy.nodes == {}
