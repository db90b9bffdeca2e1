"""Goals of the fleet's owner: whom they speak of, what they forbid, how they turn a choice; metered lines."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.files import InvalidFile, read_text
from dure.model.cluster import ClusterInfo
from dure.model.decision import Hold, Place
from dure.model.errors import InvalidInput
from dure.model.money import Rates
from dure.model.policy import Goal, Policy, Term, Verb
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, Weekly
from dure.model.units import HOUR_S, MICROS
from dure.model.workload import AcceptedClass, Phase, Workload, WorkloadRecord, WorkloadStatus, WorkloadType
from dure.place import place
from dure.place.candidate import Cycle
from dure.place.goals import aimed, clean_starts, goals_for
from dure.place.settings import PlaceSettings
from dure.plane.policies import checked
from dure.watch.ledger import Meter, accrue
from tests.fixtures.small_world import service, training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

TRAIN = training(classes=(AcceptedClass("big"),), duration_s=HOUR_S)


def world(*goals: Goal, spec: Workload = TRAIN, **changes: object) -> Snapshot:
    made = snapshot((record(spec),), carbon_per_kg=100)
    return replace(made, policies=(Policy("goals", Verb.PLACE, goals=goals),), **changes)


def home(made: Snapshot) -> str:
    [decision] = place(made)
    return decision.placement.cluster if isinstance(decision, Place) else ""


def why(made: Snapshot) -> list[str]:
    [decision] = place(made)
    assert isinstance(decision, Hold)
    return [f"{verdict.reason}: {verdict.wanted}, {verdict.found}" for verdict in decision.verdicts]


def test_weights_turn_the_choice_for_those_they_speak_of_and_for_nobody_else() -> None:
    green = Goal(tenants=("vis*",), weights={Term.CARBON: 500.0})
    assert home(world()) == "a"
    assert home(world(green)) == "b"
    assert home(world(green, spec=replace(TRAIN, tenant="search"))) == "a"
    assert home(world(replace(green, types=(WorkloadType.BATCH,)))) == "a"
    assert home(world(replace(green, models=("llama*",)))) == "a"
    assert home(world(replace(green, min_priority=5))) == "a"
    assert home(world(replace(green, min_priority=5), spec=replace(TRAIN, priority=5))) == "b"


def test_of_two_goals_the_last_weight_counts_and_both_limits_hold() -> None:
    green, again = Goal(weights={Term.CARBON: 500.0}), Goal(weights={Term.CARBON: 1.0})
    assert home(world(green, again)) == "a"
    assert home(world(again, green)) == "b"
    assert home(world(Goal(clusters=("b",)), Goal(clusters=("*",)))) == "b"
    assert home(world(Goal(clusters=("b",)), Goal(clusters=("a",)))) == ""


def test_a_weight_never_stands_in_the_bill() -> None:
    [plain] = place(world(Goal(clusters=("b",))))
    [weighed] = place(world(Goal(clusters=("b",), weights={Term.CARBON: 500.0, Term.MONEY: 0.1})))
    assert isinstance(plain, Place)
    assert isinstance(weighed, Place)
    assert weighed.placement.bill == plain.placement.bill


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        (Goal(clusters=("c*",)), "PolicyForbids: a cluster like c*, this is a"),
        (Goal(regions=("kr-*",)), "PolicyForbids: a region like kr-*, it is in a-region"),
        (Goal(max_price_micros=900 * MICROS), "PolicyForbids: at most 900 per device and hour, 1,000"),
        (Goal(max_g_per_kwh=50.0), "PolicyForbids: at most 50 g CO2/kWh while it runs, 400 if started now"),
    ],
)
def test_what_a_limit_leaves_no_home_for_is_held_with_both_figures(goal: Goal, told: str) -> None:
    assert why(world(goal))[0] == told


def test_a_price_limit_is_in_the_fleets_currency_and_of_this_hour() -> None:
    cheap_now = replace(tariff("a", 1000), owned=Weekly((800 * MICROS, *(1000 * MICROS,) * 167)))
    goal = Goal(max_price_micros=900 * MICROS)
    assert home(world(goal, tariffs=(cheap_now, tariff("b", 2000)))) == "a"
    later = (replace(cheap_now, owned=Weekly((1000 * MICROS, *(800 * MICROS,) * 167))), tariff("b", 2000))
    assert home(world(goal, tariffs=later)) == ""
    assert home(world(Goal(max_price_micros=1000 * MICROS), tariffs=later)) == "a", "the limit itself is allowed"


def test_spot_is_left_to_those_who_may_use_it() -> None:
    spot = (replace(pool("a"), capacity=Capacity.SPOT), pool("b"))
    prices = (replace(tariff("a", 10), spot=Weekly((10 * MICROS,))), tariff("b", 2000))
    assert home(world(pools=spot, tariffs=prices)) == "a"
    assert home(world(Goal(spot=False), pools=spot, tariffs=prices)) == "b"


def test_a_carbon_limit_sends_a_job_to_the_clean_grid_or_to_a_clean_hour() -> None:
    goal = Goal(max_g_per_kwh=300.0)
    assert home(world(goal)) == "b"
    # The only grid is clean from the third hour on; the dear first hours are not the reason.
    waits = replace(TRAIN, deadline_s=12 * HOUR_S)
    grids = (carbon("a", (900.0,) * 3 + (100.0,) * 93),)
    only_a = {"pools": (pool("a"),), "tariffs": (tariff("a", 1000),), "carbon": grids}
    dirty = world(goal, spec=waits, **only_a)
    assert why(dirty) == ["PolicyForbids: at most 300 g CO2/kWh while it runs, 900 if started now"]
    clusters = tuple(replace(one, observed_s=NOW_S + 3 * HOUR_S) for one in dirty.clusters)
    assert home(replace(dirty, now_s=NOW_S + 3 * HOUR_S, clusters=clusters)) == "a"


def test_dirty_hours_between_clean_ones_are_not_chosen_however_cheap() -> None:
    waits = replace(TRAIN, deadline_s=12 * HOUR_S)
    prices = Weekly(tuple((5000 if hour < 2 else 10 if hour < 4 else 500) * MICROS for hour in range(168)))
    made = world(
        Goal(max_g_per_kwh=300.0),
        spec=waits,
        pools=(pool("a"),),
        tariffs=(replace(tariff("a", 1), owned=prices),),
        carbon=(carbon("a", (100.0,) * 2 + (900.0,) * 2 + (100.0,) * 92),),
    )
    [decision] = place(made)
    assert isinstance(decision, Hold)
    assert "04:00" in decision.verdicts[0].wanted


def test_a_promised_start_bounds_the_wait_for_a_cheap_hour() -> None:
    dear_first = tariff("a", (5000,) * 4 + (500,) * 164)
    waits = replace(TRAIN, deadline_s=12 * HOUR_S)
    only_a = {"pools": (pool("a"),), "tariffs": (dear_first,)}
    assert home(world(spec=waits, **only_a)) == ""
    assert home(world(Goal(start_within_s=2 * HOUR_S), spec=waits, **only_a)) == "a"


def test_goals_are_read_from_a_file_and_what_is_wrong_in_them_is_named() -> None:
    text = """
apiVersion: dure.dev/v1alpha1
kind: Policy
metadata: {name: goals}
spec:
  verb: place
  goals:
    - {tenants: [lab], types: [batch], maxCarbon: 250g/kWh, startWithin: 6h, weights: {carbon: 3}}
    - {models: ["llama*"], regions: ["kr-*"], spot: false, maxPrice: 5000/h}
"""
    [policy] = read_text(text).policies
    assert policy.goals == (
        Goal(
            tenants=("lab",), types=(WorkloadType.BATCH,), max_g_per_kwh=250.0, start_within_s=6 * HOUR_S,
            weights={Term.CARBON: 3.0},
        ),
        Goal(models=("llama*",), regions=("kr-*",), spot=False, max_price_micros=5000 * MICROS),
    )  # fmt: skip
    for wrong, told in (
        (text.replace("carbon: 3", "karbon: 3"), "karbon"),
        (text.replace("250g/kWh", "250"), "maxCarbon"),
        (text.replace("verb: place", "verb: pack"), "are for the verb place"),
    ):
        with pytest.raises(InvalidFile, match=told):
            read_text(wrong)
    with pytest.raises(InvalidInput, match="goals are for the verb place"):
        checked(replace(policy, verb=Verb.SCALE))


def test_weights_and_data_that_are_not_there_cost_what_a_metered_line_takes() -> None:
    line = ClusterInfo(name="a", region="x", grid="a", observed_s=NOW_S, metered_micros_per_gib=1_000 * MICROS)
    spec = replace(service(), classes=(AcceptedClass("big"),))
    made = snapshot((record(spec),), a=line, pools=(pool("a"),), tariffs=(tariff("a", 1000),))
    [cold] = place(made)
    assert isinstance(cold, Place)
    assert cold.placement.bill.traffic == 14 * 1_000 * MICROS
    [warm] = place(replace(made, pools=(replace(pool("a"), warm={"chat": 1}),)))
    assert isinstance(warm, Place)
    assert warm.placement.bill.traffic == 0
    data = replace(TRAIN, dataset="images", dataset_mib=2048)
    [pulled] = place(replace(made, records=(record(data),)))
    assert isinstance(pulled, Place)
    assert pulled.placement.bill.traffic == 2 * 1_000 * MICROS


def test_traffic_can_make_a_cheap_cluster_the_dearer_one() -> None:
    line = ClusterInfo(name="a", region="x", grid="a", observed_s=NOW_S, metered_micros_per_gib=10_000 * MICROS)
    data = replace(TRAIN, dataset="images", dataset_mib=2048)
    assert home(snapshot((record(TRAIN),), a=line)) == "a"
    assert home(snapshot((record(data),), a=line)) == "b"


def test_traffic_is_charged_once() -> None:
    [placed] = place(snapshot((record(TRAIN),)))
    assert isinstance(placed, Place)
    home = replace(placed.placement, bill=replace(placed.placement.bill, traffic=777))
    status = WorkloadStatus(submitted_s=NOW_S, phase=Phase.RUNNING, placement=home, billed_until_s=NOW_S)
    running = WorkloadRecord("uid", TRAIN, status)
    meter = Meter(tariff("a", 1000), 300.0, 1.0, None, snapshot(()).rates)
    quiet = replace(running, status=replace(status, placement=placed.placement))
    first, plain = accrue(running, meter, NOW_S + 60), accrue(quiet, meter, NOW_S + 60)
    assert sum(span.micros for span in first) == 777 + sum(span.micros for span in plain)
    later = replace(running, status=replace(status, billed_until_s=NOW_S + 60))
    later_quiet = replace(quiet, status=replace(quiet.status, billed_until_s=NOW_S + 60))
    assert accrue(later, meter, NOW_S + 120) == accrue(later_quiet, meter, NOW_S + 120)


def test_the_dirtiest_grid_that_is_allowed_is_allowed_and_of_two_limits_the_stricter_holds() -> None:
    clean = replace(TRAIN, regions=("b-*",))
    assert home(world(Goal(max_g_per_kwh=100.1), spec=clean)) == "b"
    assert home(world(Goal(max_g_per_kwh=99.9), spec=clean)) == ""
    strict, loose = Goal(max_g_per_kwh=99.9), Goal(max_g_per_kwh=500.0)
    for goals in ((strict, loose), (loose, strict)):
        told = why(world(*goals, spec=clean))[1]
        assert told == "PolicyForbids: at most 100 g CO2/kWh while it runs, 100 if started now"


def test_a_limit_is_of_the_mean_of_the_hours_it_runs_whatever_the_building_adds() -> None:
    """Two hours at 100 and 300 g/kWh are 200; the PUE is in the energy and in the grams."""
    long = replace(TRAIN, duration_s=2 * HOUR_S)
    grids = (carbon("a", (100.0, *(300.0,) * 95)),)
    info = ClusterInfo("a", "here", grid="a", pue=1.7, observed_s=NOW_S)
    for most, where in ((200.1, "a"), (199.9, "")):
        seen = world(Goal(max_g_per_kwh=most), spec=long, pools=(pool("a"),), carbon=grids, clusters=(info,))
        assert home(seen) == where


def test_a_price_in_another_currency_is_held_against_the_limit_in_the_own_one() -> None:
    dollars = tuple(replace(one, currency="USD") for one in (tariff("a", 2), tariff("b", 9)))
    rates = Rates(per_unit={"USD": 1000.0})
    assert home(world(Goal(max_price_micros=2000 * MICROS), tariffs=dollars, rates=rates)) == "a"
    assert home(world(Goal(max_price_micros=2000 * MICROS - 1), tariffs=dollars, rates=rates)) == ""
    given = tuple(replace(one, owned=None) for one in dollars)
    assert home(world(Goal(max_price_micros=0), tariffs=given, rates=rates)) == "b", "what has no price is within it"


def test_goals_that_speak_of_a_workload_are_all_that_fit_it_in_their_order() -> None:
    goals = (
        Goal(tenants=("vision",), models=("", "llama*")),
        Goal(types=(WorkloadType.BATCH, WorkloadType.TRAINING)),
        Goal(tenants=("search", "vis*"), min_priority=0),
        Goal(min_priority=1),
        Goal(models=("llama*",)),
        Goal(tenants=("visio",)),
    )
    assert goals_for(goals, TRAIN) == goals[:3]
    assert goals_for(goals, replace(TRAIN, priority=1, model="llama-3")) == goals[:5]


def test_a_promise_to_start_is_a_longest_wait_in_hours() -> None:
    plain = PlaceSettings()
    assert aimed(plain, (Goal(tenants=("x",)),)) is plain
    assert aimed(plain, (Goal(start_within_s=5400.0), Goal(weights={Term.SLA: 3.0}))) == replace(
        plain, longest_wait_h=1.5, sla_weight=3.0
    )


def test_where_no_goal_asks_for_a_clean_grid_no_start_is_looked_at() -> None:
    waits = record(TRAIN)
    [candidate, _] = Cycle(snapshot((waits,)), (waits,)).candidates(waits)
    assert candidate.quote is not None
    assert clean_starts((Goal(),), candidate.quote) is None
    found = clean_starts((Goal(max_g_per_kwh=401.0),), candidate.quote)
    assert found is not None
    assert found.tolist() == [True]
