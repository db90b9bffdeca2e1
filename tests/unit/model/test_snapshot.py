"""A snapshot finds its parts by name, and its digest tells worlds apart that a decision could tell apart."""

from __future__ import annotations

from msgspec.structs import replace

from dure.model.catalogue import Catalogue, ModelProfile
from dure.model.cluster import ClusterInfo
from dure.model.money import Rates
from dure.model.policy import Policy, Verb
from dure.model.snapshot import Snapshot, digest
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.tenant import Tenant
from dure.model.weights import Weights
from tests.fixtures.small_world import training
from tests.unit.place.worlds import record

JOBS = tuple(record(training(name)) for name in ("a", "b"))
WORLD = Snapshot(
    0.0, 1, Catalogue({}), Rates(), 0, (ClusterInfo("seoul"),), (), (Tariff("seoul", "p", "t4"),), (), (), (), JOBS
)


def test_the_same_world_has_the_same_digest_however_often_it_is_asked() -> None:
    twin = replace(WORLD, records=tuple(replace(one) for one in JOBS), catalogue=Catalogue({}))
    assert digest(WORLD) == digest(twin) == digest(WORLD)


def test_every_part_of_the_world_changes_the_digest() -> None:
    others = (
        replace(WORLD, now_s=1.0),
        replace(WORLD, clusters=(ClusterInfo("busan"),)),
        replace(WORLD, catalogue=Catalogue({}, {"m": ModelProfile("m", 1e9, 1, 1.0)})),
        replace(WORLD, tariffs=()),
        replace(WORLD, carbon=(CarbonSeries("KR", 0.0, (1.0,)),)),
        replace(WORLD, tenants=(Tenant("another"),)),
        replace(WORLD, policies=(Policy("p", Verb.PLACE),)),
        replace(WORLD, weights=Weights(slo=3.0)),
        replace(WORLD, records=JOBS[:1]),
        replace(WORLD, records=(JOBS[0], replace(JOBS[1], version=9))),
    )
    assert len({digest(one) for one in (WORLD, *others)}) == 1 + len(others)


def test_templates_are_for_people_and_change_nothing() -> None:
    assert digest(replace(WORLD, catalogue=Catalogue({}, templates={"t": training("t")}))) == digest(WORLD)


def test_parts_are_found_by_name_and_a_verb_without_a_policy_has_the_usual_one() -> None:
    seoul, own = WORLD.cluster("seoul"), Policy("own", Verb.PACK)
    assert (seoul and seoul.name, WORLD.cluster("busan")) == ("seoul", None)
    assert replace(WORLD, policies=(own,)).policy(Verb.PACK) is own
    assert replace(WORLD, policies=(own,)).policy(Verb.PLACE) == Policy("default", Verb.PLACE)
