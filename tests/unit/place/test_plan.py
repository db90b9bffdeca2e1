"""What `place` decides for a whole snapshot."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.cluster import ClusterInfo
from dure.model.decision import Decision, Hold, Place
from dure.model.demand import Demand
from dure.model.errors import InvalidInput
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tenant import Budget, Isolation, Tenant, TenantUsage
from dure.model.units import MICROS
from dure.model.weights import Weights
from dure.model.workload import AcceptedClass, Phase
from dure.place import options_for, place, plan
from dure.place.batch import batch_of, wishes
from dure.place.candidate import Cycle
from tests.fixtures.small_world import fraction, service, training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

BIG_ONLY = (AcceptedClass("big"),)
HOUR = 3600.0


def only(decisions: tuple[Decision, ...]) -> Decision:
    (decision,) = decisions
    return decision


def homes(decisions: tuple[Decision, ...]) -> dict[str, str]:
    return {one.workload: one.placement.cluster for one in decisions if isinstance(one, Place)}


def reasons(decision: Decision) -> set[Reason | None]:
    assert isinstance(decision, Hold)
    return {verdict.reason for verdict in decision.verdicts}


def test_the_cheapest_home_is_taken_and_the_others_are_told_with_their_distance() -> None:
    decision = only(place(snapshot((record(training(classes=BIG_ONLY)),))))
    assert isinstance(decision, Place)
    assert decision.placement.cluster == "a"
    assert [verdict.where for verdict in decision.others] == ["b/big"]
    assert "more" in decision.others[0].detail


@pytest.mark.parametrize(("dear", "home", "replicas"), [(1900, "b", 2), (2100, "a", 4)])
def test_a_slower_class_is_billed_for_the_replicas_that_carry_the_same(dear: int, home: str, replicas: int) -> None:
    """Twice as many at 1,000 against half as many at nearly, or more than, twice the price."""
    spec = msgspec.structs.replace(service(replicas=2), classes=(AcceptedClass("big"), AcceptedClass("small", 0.5)))
    pools = (pool("a", class_name="small"), pool("b"))
    tariffs = (tariff("a", 1000, class_name="small"), tariff("b", dear))
    found = only(place(snapshot((record(spec),), pools=pools, tariffs=tariffs)))
    assert isinstance(found, Place)
    assert (found.placement.cluster, found.placement.replicas) == (home, replicas)


@pytest.mark.parametrize(("devices", "home"), [(1, "b"), (2, "b"), (4, "a")])
def test_a_node_is_not_booted_for_a_small_workload_while_a_dearer_pool_has_room(devices: int, home: str) -> None:
    """Of a node with four devices for 1,000 each the rest counts for an hour beside two hours at 1,400."""
    spec = training(classes=BIG_ONLY, gang=1, duration_s=2 * HOUR)
    spec = msgspec.structs.replace(spec, demand=msgspec.structs.replace(spec.demand, devices=devices))
    bootable = msgspec.structs.replace(pool("a", nodes=0), nodes_max=1)
    world = snapshot((record(spec),), pools=(bootable, pool("b")), tariffs=(tariff("a", 1000), tariff("b", 1400)))
    assert homes(place(world)) == {"train": home}


def test_equal_prices_are_decided_by_carbon() -> None:
    world = snapshot((record(training(classes=BIG_ONLY)),), tariffs=(tariff("a", 1000), tariff("b", 1000)))
    assert homes(place(world)) == {"train": "b"}


def test_a_carbon_price_moves_the_choice_to_the_greener_grid() -> None:
    world = snapshot(
        (record(training(classes=BIG_ONLY, duration_s=36_000)),),
        tariffs=(tariff("a", 1000), tariff("b", 1010)),
        carbon_per_kg=90_000,
    )
    assert homes(place(world)) == {"train": "b"}


def test_an_unknown_grid_is_never_taken_for_a_clean_one() -> None:
    world = snapshot(
        (record(training(classes=BIG_ONLY)),),
        tariffs=(tariff("a", 1000), tariff("b", 1000)),
        grids=(carbon("a", 400.0), carbon("b", None)),
        carbon_per_kg=90_000,
    )
    offers = options_for(world, world.records[0])
    unknown = next(offer for offer in offers if offer.option.cluster.name == "b")
    assert unknown.bill.carbon_unknown
    assert unknown.bill.carbon_g > 0
    assert not next(offer for offer in offers if offer.option.cluster.name == "a").bill.carbon_unknown


def test_a_deferrable_job_waits_for_the_cheap_hours_inside_its_deadline() -> None:
    dear_first = (5000,) * 4 + (500,) * 164
    spec = training(classes=BIG_ONLY, duration_s=HOUR)
    world = snapshot((record(spec, deadline_s=12 * HOUR),), pools=(pool("a"),), tariffs=(tariff("a", dear_first),))
    decision = only(place(world))
    assert reasons(decision) == {Reason.WAITING_FOR_CHEAPER_HOUR}
    assert isinstance(decision, Hold)
    assert "04:00" in decision.verdicts[0].wanted
    assert decision.until_s == NOW_S + HOUR


def test_who_waits_for_a_cheaper_hour_on_a_new_node_is_told_the_figures_that_were_compared() -> None:
    """One device of four for an hour at 5,000 or 500; the other three count for the same hour."""
    spec = training(classes=BIG_ONLY, gang=1, duration_s=HOUR)
    spec = msgspec.structs.replace(spec, demand=msgspec.structs.replace(spec.demand, devices=1))
    bootable = msgspec.structs.replace(pool("a", nodes=0), nodes_max=1)
    tariffs = (tariff("a", (5000,) * 4 + (500,) * 164),)
    decision = only(place(snapshot((record(spec, deadline_s=12 * HOUR),), pools=(bootable,), tariffs=tariffs)))
    assert isinstance(decision, Hold)
    told = decision.verdicts[0]
    assert told.reason is Reason.WAITING_FOR_CHEAPER_HOUR
    assert told.wanted == "2,000 with the rest of a new node from 04:00 UTC"
    assert told.found == "20,000 with the rest of a new node if started now"


def test_one_that_waits_on_purpose_is_left_in_peace_until_the_next_hour() -> None:
    dear_first = (5000,) * 4 + (500,) * 164
    sleeper = record(training(classes=BIG_ONLY, duration_s=HOUR), deadline_s=12 * HOUR)
    world = snapshot((sleeper,), pools=(pool("a"),), tariffs=(tariff("a", dear_first),))
    first = only(place(world))
    assert isinstance(first, Hold)
    status = msgspec.structs.replace(
        sleeper.status, phase=Phase.HELD, held=first.verdicts, look_again_s=first.until_s
    )
    held = msgspec.structs.replace(sleeper, status=status)
    cheap_now = msgspec.structs.replace(world, records=(held,), tariffs=(tariff("a", 1),), now_s=NOW_S + 600)
    assert only(place(cheap_now)) == first
    clusters = (msgspec.structs.replace(world.clusters[0], observed_s=NOW_S + HOUR),)
    later = msgspec.structs.replace(cheap_now, now_s=NOW_S + HOUR, clusters=clusters)
    assert homes(place(later)) == {"train": "a"}


def test_it_does_not_wait_when_a_slow_run_would_then_miss_the_deadline() -> None:
    dear_first = (5000,) * 4 + (500,) * 164
    spec = training(classes=BIG_ONLY, duration_s=HOUR)
    world = snapshot((record(spec, deadline_s=5.1 * HOUR),), pools=(pool("a"),), tariffs=(tariff("a", dear_first),))
    assert homes(place(world)) == {"train": "a"}


def test_it_does_not_wait_for_a_saving_within_the_doubt_of_the_forecast() -> None:
    hardly_cheaper = (1000,) * 4 + (998,) * 164
    spec = training(classes=BIG_ONLY, duration_s=HOUR)
    world = snapshot(
        (record(spec, deadline_s=12 * HOUR),), pools=(pool("a"),), tariffs=(tariff("a", hardly_cheaper),)
    )
    assert homes(place(world)) == {"train": "a"}


def test_a_job_that_may_not_wait_starts_at_the_dear_hour() -> None:
    dear_first = (5000,) * 4 + (500,) * 164
    spec = training(classes=BIG_ONLY, duration_s=HOUR)
    world = snapshot(
        (record(spec, deadline_s=12 * HOUR, deferrable=False),),
        pools=(pool("a"),),
        tariffs=(tariff("a", dear_first),),
    )
    assert homes(place(world)) == {"train": "a"}


def test_a_greener_hour_is_named_as_such() -> None:
    spec = training(classes=BIG_ONLY, duration_s=HOUR)
    world = snapshot(
        (record(spec, deadline_s=12 * HOUR),),
        pools=(pool("a"),),
        tariffs=(tariff("a", 100),),
        grids=(carbon("a", (900.0,) * 4 + (50.0,) * 44),),
        carbon_per_kg=900_000,
    )
    assert reasons(only(place(world))) == {Reason.WAITING_FOR_GREENER_HOUR}


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    spec = training(gang=3, devices=2, classes=BIG_ONLY)
    fits = snapshot((record(spec),), pools=(pool("a", nodes=2),))
    assert homes(place(fits)) == {"train": "a"}
    broken_up = msgspec.structs.replace(pool("a", nodes=6, devices=4), free_whole=(1,) * 6, free_milli=6000)
    held = only(place(snapshot((record(spec),), pools=(broken_up,))))
    assert reasons(held) == {Reason.FRAGMENTED}


def test_data_residency_rules_a_region_out() -> None:
    world = snapshot((record(training(classes=BIG_ONLY), regions=("b-*",)),))
    assert homes(place(world)) == {"train": "b"}


def test_the_month_s_money_must_cover_the_very_bill() -> None:
    poor = Tenant("vision", budget=Budget(money_micros=200 * MICROS))
    world = snapshot((record(training(classes=BIG_ONLY, duration_s=HOUR)),), tenants=(poor,))
    assert reasons(only(place(world))) == {Reason.BUDGET_EXCEEDED}


def test_a_carbon_budget_sends_the_job_to_the_greener_grid() -> None:
    frugal = Tenant("vision", budget=Budget(carbon_g=100.0))
    world = snapshot((record(training(classes=BIG_ONLY, duration_s=HOUR)),), tenants=(frugal,))
    assert homes(place(world)) == {"train": "b"}


@pytest.mark.parametrize("budget", [Budget(carbon_g=100.0), Budget(money_micros=2500 * MICROS)])
def test_jobs_that_are_decided_together_share_one_budget_of_either_kind(budget: Budget) -> None:
    """One hour emits 160 g at `a` and 40 g at `b`, and costs 1,000 and 2,000: two fit into either budget."""
    jobs = tuple(record(training(f"t{n}", classes=BIG_ONLY, duration_s=HOUR)) for n in range(4))
    world = snapshot(jobs, tenants=(Tenant("vision", budget=budget),))
    assert len(homes(place(world))) == 2


def test_without_borrowing_a_tenant_stays_inside_its_quota() -> None:
    tenant = Tenant("vision", quota={"big": 2}, borrow=False)
    jobs = tuple(record(training(f"t{n}", classes=BIG_ONLY)) for n in range(4))
    decisions = place(snapshot(jobs, tenants=(tenant,)))
    assert len(homes(decisions)) == 2
    held = next(one for one in decisions if isinstance(one, Hold))
    assert reasons(held) == {Reason.QUOTA_EXCEEDED}


def test_a_borrower_leaves_room_for_those_who_claim_their_own_quota() -> None:
    lender, borrower = Tenant("search", quota={"big": 3}), Tenant("vision", quota={"big": 1})
    mine = tuple(record(training(f"t{n}", classes=BIG_ONLY)) for n in range(4))
    theirs = tuple(record(training(f"s{n}", classes=BIG_ONLY), tenant="search", submitted_s=NOW_S) for n in range(3))
    decisions = place(snapshot((*mine, *theirs), pools=(pool("a"),), tenants=(lender, borrower)))
    assert sorted(homes(decisions)) == ["s0", "s1", "s2", "t0"]


def test_priority_comes_before_submission() -> None:
    early = record(training("early", devices=4, classes=BIG_ONLY), submitted_s=NOW_S - 100)
    urgent = record(training("urgent", devices=4, classes=BIG_ONLY), priority=10)
    assert homes(place(snapshot((early, urgent), pools=(pool("a"),)))) == {"urgent": "a"}


def test_among_equals_the_tenant_with_the_smaller_share_goes_first() -> None:
    rich = TenantUsage("vision", device_milli={"big": 4000})
    mine = record(training("mine", devices=4, classes=BIG_ONLY), submitted_s=NOW_S - 100)
    theirs = record(training("theirs", devices=4, classes=BIG_ONLY), tenant="search")
    tenants = (Tenant("search"), Tenant("vision"))
    decisions = place(snapshot((mine, theirs), pools=(pool("a"),), tenants=tenants, usage=(rich,)))
    assert homes(decisions) == {"theirs": "a"}


def test_an_own_node_tenant_needs_an_empty_node() -> None:
    tenant = Tenant("search", isolation=Isolation.OWN_NODE)
    busy = msgspec.structs.replace(pool("a"), free_whole=(3,), free_milli=3000)
    world = snapshot((record(fraction()),), pools=(busy,), tenants=(tenant,))
    assert Reason.ISOLATION_TIER in reasons(only(place(world)))


def test_weights_already_there_are_worth_their_cold_start() -> None:
    warm = msgspec.structs.replace(pool("b"), warm={"chat": 1})
    world = snapshot((record(service()),), pools=(pool("a"), warm), tariffs=(tariff("a", 1000), tariff("b", 1000)))
    offers = options_for(world, world.records[0])
    saved = {offer.option.cluster.name: offer.bill.warm_saved for offer in offers if offer.clash is None}
    assert saved["b"] > saved["a"] == 0


def test_a_far_cluster_pays_for_the_latency_it_adds() -> None:
    far = ClusterInfo(name="a", region="a-region", grid="a", observed_s=NOW_S, latency_ms=200.0)
    world = snapshot((record(service()),), a=far, tariffs=(tariff("a", 1000), tariff("b", 1000)))
    assert homes(place(world)) == {"chat": "b"}


def test_congestion_steers_away_but_the_bill_stays_honest() -> None:
    world = snapshot((record(training(classes=BIG_ONLY)),), tariffs=(tariff("a", 1000), tariff("b", 1100)))
    crowded = msgspec.structs.replace(world, weights=Weights(congestion={"a/big": 2.0}))
    decision = only(place(crowded))
    assert isinstance(decision, Place)
    assert decision.placement.cluster == "b"
    assert decision.placement.bill.direct == pytest.approx(1100 * MICROS * 1000 / 3600, rel=1e-6)


def test_a_paused_policy_holds_everything_and_says_so() -> None:
    world = snapshot((record(training()),))
    paused = msgspec.structs.replace(world, policies=(Policy("careful", Verb.PLACE, paused=True),))
    assert reasons(only(place(paused))) == {Reason.POLICY_PAUSED}


def test_an_unknown_setting_names_the_nearest_valid_one() -> None:
    world = snapshot((record(training()),))
    wrong = msgspec.structs.replace(world, policies=(Policy("p", Verb.PLACE, settings={"horizonh": 3}),))
    with pytest.raises(InvalidInput, match="Did you mean 'horizonH'"):
        place(wrong)


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    records = tuple(
        record(
            training(
                f"w{n}",
                gang=draw(st.integers(1, 3)),
                devices=draw(st.integers(1, 4)),
                duration_s=draw(st.integers(1, 20)) * 1800.0,
                classes=BIG_ONLY,
            ),
            tenant=draw(st.sampled_from(("search", "vision"))),
            priority=draw(st.integers(0, 2)),
            submitted_s=NOW_S - draw(st.integers(0, 3)),
            deadline_s=draw(st.one_of(st.none(), st.integers(1, 40).map(lambda h: h * HOUR))),
        )
        for n in range(draw(st.integers(1, 7)))
    )
    tenants = (
        Tenant("search", budget=Budget(money_micros=draw(st.integers(0, 60_000)) * MICROS)),
        Tenant(
            "vision",
            quota={"big": draw(st.integers(0, 6))},
            borrow=False,
            budget=Budget(carbon_g=float(draw(st.integers(0, 20_000)))),
        ),
    )
    night = tuple(draw(st.integers(500, 1500)) for _ in range(24)) * 7
    return snapshot(records, tenants=tenants, tariffs=(tariff("a", night), tariff("b", 900, electricity=150)))


@settings(max_examples=40, deadline=None)
@given(crowds())
def test_budgets_quota_and_room_hold_and_gangs_are_whole(world: Snapshot) -> None:
    decisions = place(world)
    assert sorted(one.workload for one in decisions if isinstance(one, (Place, Hold))) == sorted(
        one.name for one in world.records
    )
    specs = {one.name: one.spec for one in world.records}
    placed = [one for one in decisions if isinstance(one, Place)]
    money = sum(
        one.placement.bill.direct + one.placement.bill.energy
        for one in placed
        if specs[one.workload].tenant == "search"
    )
    grams = sum(one.placement.bill.carbon_g for one in placed if specs[one.workload].tenant == "vision")
    held = sum(
        specs[one.workload].demand.devices * one.placement.replicas
        for one in placed
        if specs[one.workload].tenant == "vision"
    )
    search, vision = world.tenants
    assert money <= (search.budget.money_micros or 0)
    assert grams <= (vision.budget.carbon_g or 0) + 1e-6
    assert held <= vision.quota["big"]
    for name in ("a", "b"):
        assert sum(specs[one.workload].demand.devices * one.placement.replicas
                   for one in placed if one.placement.cluster == name) <= 4  # fmt: skip
    assert all(one.placement.replicas == specs[one.workload].gang for one in placed)
    assert all(one.verdicts for one in decisions if isinstance(one, Hold))


ROOMS = st.lists(st.integers(0, 4), min_size=2, max_size=2).map(lambda free: tuple(sorted(free, reverse=True)))


@settings(max_examples=30, deadline=None)
@given(ROOMS, ROOMS, st.integers(100, 900), st.sampled_from(Isolation))
def test_who_needs_nodes_of_its_own_is_never_put_beside_another(
    here: tuple[int, ...], there: tuple[int, ...], milli: int, tier: Isolation
) -> None:
    rooms = {"a": here, "b": there}
    pools = tuple(
        msgspec.structs.replace(pool(name, nodes=2), free_whole=free, free_milli=1000 * sum(free))
        for name, free in rooms.items()
    )
    share = record(training(classes=BIG_ONLY), demand=Demand(compute_milli=milli, memory_mib=1024), tenant="search")
    decision = only(place(snapshot((share,), pools=pools, tenants=(Tenant("search", isolation=tier),))))
    if isinstance(decision, Place):
        assert not tier.walls_nodes or 4 in rooms[decision.placement.cluster]
    elif tier.walls_nodes and 4 not in here + there:
        assert Reason.ISOLATION_TIER in reasons(decision)
    if 4 in here + there:
        assert isinstance(decision, Place)


@settings(max_examples=25, deadline=None)
@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_the_snapshot_does_not_matter(world: Snapshot, random: object) -> None:
    shuffled = {}
    for name in ("records", "pools", "tariffs", "carbon", "tenants", "clusters"):
        items = list(getattr(world, name))
        random.shuffle(items)  # type: ignore[attr-defined]
        shuffled[name] = tuple(items)
    other = msgspec.structs.replace(world, **shuffled)
    assert place(other) == place(world)


@settings(max_examples=25, deadline=None)
@given(st.integers(500, 2000), st.integers(1, 1000), st.integers(0, 400), st.integers(0, 300))
def test_a_home_that_is_worse_in_every_term_is_never_chosen(price: int, more: int, power: int, grams: int) -> None:
    world = snapshot(
        (record(training(classes=BIG_ONLY), deadline_s=20 * HOUR),),
        tariffs=(tariff("a", price + more, electricity=power + 1), tariff("b", price, electricity=power)),
        grids=(carbon("a", grams + 100.0), carbon("b", grams + 1.0)),
        carbon_per_kg=50,
    )
    assert homes(place(world)) == {"train": "b"}


@settings(max_examples=60, deadline=None)
@given(crowds())
def test_where_everybody_can_have_his_wish_the_solver_answers_the_same(world: Snapshot) -> None:
    cycle = Cycle(world, world.records)
    batch = batch_of(cycle, world.records)
    wished = wishes(cycle, batch)
    assert wished is None or wished == plan.solved(cycle, batch)


def test_a_lonely_workload_in_an_empty_fleet_needs_no_solver() -> None:
    world = snapshot((record(training(classes=BIG_ONLY)),))
    cycle = Cycle(world, world.records)
    assert wishes(cycle, batch_of(cycle, world.records)) is not None


def test_one_whose_favourite_stays_full_needs_no_solver_either() -> None:
    full = msgspec.structs.replace(pool("a"), free_whole=(), free_milli=0)
    world = snapshot(
        (record(training(classes=BIG_ONLY), deferrable=True, deadline_s=20 * HOUR),), pools=(full, pool("b"))
    )
    cycle = Cycle(world, world.records)
    batch = batch_of(cycle, world.records)
    (choice,) = wishes(cycle, batch) or (None,)
    assert choice is not None
    assert batch.candidates[0][choice.candidate].where == "b/big"
