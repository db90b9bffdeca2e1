"""Units, money, reasons, tariffs: the small promises that everything else rests on."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.answer import Line, line
from dure.model.bill import Bill
from dure.model.errors import Conflict, DureError, InvalidInput, NotAllowed, NotFound, Permanent, Temporary, kind_of
from dure.model.eta import Range
from dure.model.money import Rates, for_duration, show
from dure.model.offer import InstanceOffer
from dure.model.posting import Account, Posting, added
from dure.model.reason import REMEDIES, Reason, Verdict
from dure.model.tariff import Capacity, CarbonSeries, Tariff, Weekly
from dure.model.tenant import Isolation
from dure.model.units import gib, hour_of_week
from dure.model.workload import AcceptedClass, Phase, Replicas
from tests.fixtures.small_world import service, training


def test_a_week_begins_on_monday_at_midnight_utc() -> None:
    monday = 1_767_571_200  # 2026-01-05 00:00 UTC
    assert hour_of_week(monday) == 0
    assert hour_of_week(monday - 1) == 167
    assert hour_of_week(monday + 25 * 3600) == 25


def test_an_unknown_currency_is_an_error_and_never_one_to_one() -> None:
    rates = Rates("KRW", {"USD": 1380.0})
    assert rates.convert(1_000_000, "USD") == 1_380_000_000
    assert rates.convert(7, "KRW") == 7
    with pytest.raises(InvalidInput, match="no exchange rate from EUR"):
        rates.convert(1, "EUR")


def test_money_is_rounded_once_per_stretch() -> None:
    assert for_duration(3_600, 1.0) == 1
    assert show(412_000_000_000) == "412,000"
    assert show(1_500_000, "KRW") == "1.50 KRW"
    assert show(2_000_000) == "2"
    assert show(100_400_000) == "100"
    assert show(99_400_000) == "99.40"
    assert show(-412_300_000) == "-412"


def test_a_bill_adds_costs_and_takes_off_what_is_reused() -> None:
    bill = Bill(direct=100, energy=20, carbon=3, sla=4, rework=5, migration=6, warm_saved=30, data_saved=8)
    assert bill.total == 100
    assert bill.reuse == 38


def test_every_reason_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Reason)
    assert all(REMEDIES.values())


def test_a_verdict_says_which_two_numbers_clash() -> None:
    verdict = Verdict("seoul-a/h100", Reason.NO_CAPACITY, "40 GiB", "largest free slice in seoul-a is 20 GiB")
    assert verdict.sentence == "needs 40 GiB, largest free slice in seoul-a is 20 GiB"
    assert not verdict.ok
    assert verdict.remedy == REMEDIES[Reason.NO_CAPACITY]
    assert (Verdict("x").ok, Verdict("x").sentence, Verdict("x").remedy) == (True, "fits", "")
    assert Verdict("x", Reason.FRAGMENTED).sentence == Reason.FRAGMENTED
    assert Verdict("x", None, wanted="2 devices", detail="soon").sentence == "2 devices; soon"
    assert line(verdict) == Line("seoul-a/h100", verdict.sentence, Reason.NO_CAPACITY, verdict.remedy)


def test_a_tariff_by_the_hour_of_the_week() -> None:
    night = Weekly(tuple(1 if hour % 24 < 8 else 2 for hour in range(168)))
    tariff = Tariff("c", "p", "t4", on_demand=night, spot=Weekly((1,)))
    assert night.at(1_767_571_200 + 7 * 3600) == 1
    assert night.at(1_767_571_200 + 8 * 3600) == 2
    assert tariff.capacities == (Capacity.ON_DEMAND, Capacity.SPOT)
    assert tariff.per_hour(Capacity.OWNED) is None
    assert tariff.per_hour(Capacity.SPOT) == Weekly((1,))
    assert Weekly((7,)).at(1_767_571_200 + 9 * 3600) == 7


def test_unknown_carbon_is_none_and_never_zero() -> None:
    series = CarbonSeries("KR", 3600.0, (400.0, None))
    assert series.at(3600.0) == 400.0
    assert series.at(7200.0) is None
    assert series.at(0.0) is None
    assert CarbonSeries("KR", 3600.0, (400.0,)).at(7200.0) is None, "nothing is known beyond the last value"


def test_memory_is_shown_in_gib() -> None:
    assert gib(18_432) == "18 GiB"
    assert gib(4_864) == "4.75 GiB"


def test_an_error_says_where_what_and_what_to_do() -> None:
    error = InvalidInput("no such class", where="fleet.yaml:3", remedy="Did you mean 't4'?")
    assert str(error) == "fleet.yaml:3: no such class\n  Did you mean 't4'?"
    assert str(InvalidInput("no such class")) == "no such class"
    assert error.args == ("no such class",)


def test_a_status_of_http_stands_for_one_kind_of_error() -> None:
    assert [kind_of(status) for status in (400, 401, 404, 409, 429)] == [
        InvalidInput, NotAllowed, NotFound, Conflict, Temporary,
    ]  # fmt: skip
    assert (kind_of(418), kind_of(418, Temporary)) == (Permanent, Temporary)


def test_two_postings_of_one_key_add_up_in_every_figure() -> None:
    one = Posting(
        1, "c", "p", Account.PAID, micros=1, carbon_mg=2, device_ms=3_600_000_000, energy_mwh=4, unknown_mwh=5
    )
    both = added(one, one)
    assert (both.micros, both.carbon_mg, both.energy_mwh, both.unknown_mwh) == (2, 4, 8, 10)
    assert (both.device_hours, both.key) == (2.0, one.key)


def test_every_account_is_one_of_the_four_words_of_the_balance() -> None:
    assert {account.group for account in Account} == {"paid", "used", "idle", "overhead"}
    assert [account.group for account in (Account.PAID, Account.USED, Account.IDLE)] == ["paid", "used", "idle"]


def test_own_nodes_wall_off_devices_too() -> None:
    assert {tier for tier in Isolation if tier.walls_devices} == {Isolation.OWN_DEVICE, Isolation.OWN_NODE}
    assert {tier for tier in Isolation if tier.walls_nodes} == {Isolation.OWN_NODE}


def test_half_of_all_cases_lie_in_the_inner_range() -> None:
    found = Range(1.0, 2.0, 3.0, 4.0, 5.0)
    assert [found.holds_half(at) for at in (1.9, 2.0, 4.0, 4.1)] == [False, True, True, False]
    assert [found.holds(at) for at in (0.9, 1.0, 5.0, 5.1)] == [False, True, True, False]


def test_an_instance_type_has_a_family_and_a_size() -> None:
    offer = InstanceOffer("g5.xlarge", "a10g", "A10G", 1, 4, 16, 1_006_000)
    assert (offer.family, offer.size) == ("g5", "xlarge")


def test_phases_that_wait_or_ended_are_told_apart_from_those_that_run() -> None:
    assert {phase for phase in Phase if phase.waits} == {Phase.PENDING, Phase.HELD}
    assert {phase for phase in Phase if phase.ended} == {Phase.DONE, Phase.FAILED, Phase.CANCELLED}


def test_exit_codes_are_those_of_the_table() -> None:
    errors: list[type[DureError]] = [Permanent, InvalidInput, NotAllowed, NotFound, Conflict, Temporary]
    assert [error.exit_code for error in errors] == [1, 2, 3, 4, 5, 6]


def test_replicas_are_counted_on_the_first_class_and_a_slower_one_gets_as_many_more_as_it_may_have() -> None:
    classes = (AcceptedClass("h"), AcceptedClass("a", 0.55), AcceptedClass("t", 0.2), AcceptedClass("b", 2.0))
    spec = msgspec.structs.replace(service(replicas=2), classes=classes, replicas=Replicas(2, 6))
    assert [spec.size_on(name) for name in ("h", "a", "t", "b", "unknown")] == [2, 4, 6, 2, 2]
    thirds = msgspec.structs.replace(spec, classes=(AcceptedClass("h"), AcceptedClass("a", 1 / 3)))
    assert thirds.size_on("a") == 6, "rounding must not add a seventh"
    assert msgspec.structs.replace(training(gang=3), classes=classes).size_on("a") == 3, "a gang is a gang"
