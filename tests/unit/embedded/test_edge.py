"""The edge: few devices, a metered line that comes and goes, users nearby."""

from __future__ import annotations

from msgspec.structs import replace

from dure.files import read_text
from dure.model.catalogue import Catalogue
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.reason import Reason
from dure.model.units import DAY_S, HOUR_S
from dure.model.workload import Phase, Slo
from tests.unit.embedded.test_moves import job, service
from tests.unit.embedded.test_world import Turner, batch

FLEET = """
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: shops}
spec:
  currency: KRW
  clusters:
    - name: core
      region: kr-core
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 2, devices: 4, share: [exclusive, mps], price: {owned: 900/h}}
    - name: shop
      region: kr-shop
      connect: {embedded: {}}
      pools:
        - {name: a100, class: a100-80gb-sxm, nodes: 1, devices: 1, share: [exclusive, mps], price: {owned: 950/h}}
  tenants: [{name: vision, weight: 1}]
"""


def fleet(core_ms: float = 0.0) -> Fleet:
    made = read_text(FLEET, "shops").fleets[0]
    return replace(made, clusters=tuple(_placed(one, core_ms) for one in made.clusters))


def _placed(spec: ClusterSpec, core_ms: float) -> ClusterSpec:
    if spec.info.name == "shop":
        return replace(spec, info=replace(spec.info, edge=True, latency_ms=2.0, metered_micros_per_gib=500_000_000))
    return replace(spec, info=replace(spec.info, latency_ms=core_ms))


def cut(turner: Turner, name: str) -> None:
    turner.world.clusters[name].reachable = False
    turner.cut = [agent for agent in turner.world.agents if agent.cluster.name == name]  # type: ignore[attr-defined]
    turner.world.agents = [agent for agent in turner.world.agents if agent.cluster.name != name]


def join(turner: Turner, name: str) -> None:
    turner.world.clusters[name].reachable = True
    turner.world.agents = [*turner.world.agents, *turner.cut]  # type: ignore[attr-defined]
    turner.world.nudge()


def test_users_too_far_away_rule_a_cluster_out_and_near_ones_are_preferred(known: Catalogue) -> None:
    turner = Turner(fleet(core_ms=150.0), known)
    turner.world.submit(
        [replace(service(), slo=Slo(latency_p95_ms=120.0), replicas=replace(service().replicas, min=1))]
    )
    turner.run(HOUR_S, step_s=60.0)
    placement = turner.store.fetch_workload("chat").status.placement
    assert placement is not None
    assert placement.cluster == "shop"
    lines = turner.world.desk.plan(replace(service("other"), slo=Slo(latency_p95_ms=120.0))).options
    reasons = {option.verdict.reason for option in lines if option.cluster == "core"}
    assert reasons == {Reason.LATENCY_TOO_HIGH}


def test_a_data_set_is_not_pulled_through_a_metered_line(known: Catalogue) -> None:
    turner = Turner(fleet(), known)
    turner.run(60.0)
    wish = replace(batch("learn"), dataset="frames", dataset_mib=100 * 1024)
    reasons = {one.cluster: one.verdict.reason for one in turner.world.desk.plan(wish).options}
    assert reasons["shop"] is Reason.DATA_TOO_FAR


def test_an_edge_cluster_that_was_away_for_a_day_reconverges(known: Catalogue) -> None:
    turner = Turner(fleet(), known)
    here = replace(
        job("local", duration_s=5 * HOUR_S), demand=replace(job("x").demand, devices=1), regions=("kr-shop",)
    )
    turner.world.submit([here])
    turner.run(HOUR_S, step_s=60.0)
    assert turner.store.fetch_workload("local").status.phase is Phase.RUNNING
    cut(turner, "shop")
    turner.world.submit([replace(here, name="later")])
    turner.run(DAY_S, step_s=600.0)
    assert turner.store.fetch_workload("local").status.phase is Phase.RUNNING
    assert turner.store.fetch_workload("later").status.phase is Phase.HELD
    join(turner, "shop")
    turner.run(HOUR_S, step_s=60.0)
    assert turner.store.fetch_workload("local").status.phase is Phase.DONE
    assert turner.store.fetch_workload("later").status.phase is Phase.RUNNING
    assert turner.store.fetch_workload("local").status.restarts == 0
