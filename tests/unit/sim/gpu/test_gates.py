"""The virtual GPU against published measurements: what must hold before it may judge anybody.

Each gate names its source. They need the public data folder and skip without it, saying so.
"""

from __future__ import annotations

import functools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dure.bench.data import data_dir, read_rows
from dure.bench.interference import command as interference
from dure.bench.interference import read_pairs
from dure.bench.share import QOS
from dure.manifest.migplan import Measured, Service, best_rates, fits, plan
from dure.share.interference import App as InterferenceApp
from dure.share.interference import empty_book
from dure.sim.gpu.baselines.bless import NSP, SEMI_SP, SP
from dure.sim.gpu.device import A100, V100
from dure.sim.gpu.experiments import GRID, LOADS, MULTI, crowd, pair, squad_gain, think_times
from dure.sim.gpu.profile import A100_APPS, synthesise, waved
from dure.sim.gpu.run import SYSTEMS, Tenant, iso_ms, play
from tests.unit.sim.gpu.published import (
    disb_clients,
    gpulet_utilisation,
    miso_times,
    orion_profile,
    parva_table,
    reef_profiles,
)

DATA = data_dir()
pytestmark = pytest.mark.skipif(DATA is None, reason="public data not found: set DURE_DATA")
SHORT = {"R50": "ResNet50", "R101": "ResNet101", "NAS": "NasNet", "VGG": "VGG11", "BERT": "BERT"}


def folder(name: str) -> Path:
    assert DATA is not None
    return DATA / name


@functools.cache
def published() -> dict[tuple[str, str, str], float]:
    rows = read_rows(folder("bless-paper") / "fig13_symmetric_even_quota.csv")
    return {
        (r["model_pair"], r["workload"], r["system"]): float(r["avg_latency_ms"])
        for r in rows
        if r["mode"] == "inference"
    }


@functools.cache
def simulated(app: str, load: str, system: str) -> float:
    return pair(A100_APPS[app], load, SYSTEMS[system], 0).mean_ms


def test_g1_solo_latency_is_the_published_one() -> None:
    table = {
        r["model"]: float(r["solo_ms_full_gpu"])
        for r in read_rows(folder("bless-paper") / "table1_apps.csv")
        if r["mode"] == "inference"
    }
    for app in GRID:
        alone = play(A100, [Tenant(synthesise(A100_APPS[app], A100.sms), 1.0)], np.zeros((1, 1)), SYSTEMS["UNBOUND"])
        assert alone.latency_ms[0, 0] == pytest.approx(table[app], rel=0.01)


def test_g1_solo_latency_is_the_sum_of_the_measured_kernels() -> None:
    for name, total in (("resnet50_4_fwd", 6.50), ("bert_2_fwd", 48.6), ("transformer_xl_4_fwd", 16.7)):
        profile = orion_profile(folder("orion") / "model_kernels" / f"{name}.csv")
        alone = play(V100, [Tenant(profile, 1.0)], np.zeros((1, 1)), SYSTEMS["UNBOUND"])
        assert alone.latency_ms[0, 0] == pytest.approx(total, rel=0.01)


def test_g2_isolated_latency_follows_the_published_curves() -> None:
    worst = 0.0
    for row in read_rows(folder("bless-paper") / "fig12_latency_chart.csv"):
        if row["system"] != "ISO":
            continue
        quota = float(Fraction(row["app1_quota"]))
        for app, share, ms in (
            (row["app1"], quota, row["app1_avg_latency_ms"]),
            (row["app2"], 1.0 - quota, row["app2_avg_latency_ms"]),
        ):
            profile = synthesise(A100_APPS[SHORT[app]], A100.sms)
            worst = max(worst, abs(iso_ms(profile, share, A100) / float(ms) - 1.0))
    assert worst <= 0.06


def test_g3_waves_foretell_a_curve_they_were_never_fitted_to() -> None:
    profile = orion_profile(folder("orion") / "model_kernels" / "resnet50_4_fwd.csv")
    ms, sms = np.array(profile.ms), np.array(profile.sms)
    measured = {
        int(r["sm_percent"]): float(r["latency_ms"])
        for r in read_rows(folder("igniter") / "solo_v100_mps.csv")
        if r["model"] == "resnet50" and r["batch"] == "4"
    }
    base = waved(ms, sms, 64, 80).sum()
    for percent in (60, 50, 40, 20):
        foretold = waved(ms, sms, round(0.8 * percent), 80).sum() / base
        assert foretold == pytest.approx(measured[percent] / measured[80], rel=0.15)


def test_g4_partitioned_pairs_slow_each_other_as_measured() -> None:
    slowdowns = [
        1.0 / s.seen.speed for both in read_pairs(folder("igniter") / "pair_colocation_v100_mps.csv") for s in both
    ]
    assert np.mean(slowdowns) == pytest.approx(1.097, abs=0.005)
    measured = [float(r[c]) for r in read_rows(folder("bless-paper") / "fig9b_app_interference.csv")
                for c in ("app1_slowdown", "app2_slowdown")]  # fmt: skip
    ours = []
    for app in GRID:
        profile = synthesise(A100_APPS[app], A100.sms)
        ours.append(simulated(app, "A", "GSLICE") / iso_ms(profile, 0.5, A100))
    assert np.mean(ours) == pytest.approx(np.mean(measured), abs=0.02)


def test_g5_equation_1_foretells_held_out_pairs() -> None:
    done = CliRunner().invoke(
        interference, ["--pairs", str(folder("igniter") / "pair_colocation_v100_mps.csv"), "--json"]
    )
    summary = json.loads(done.stdout)["summary"]
    assert summary["p90_pct"] <= 4.0
    assert summary["p95_pct"] <= 6.0
    assert summary["p90_pct"] < summary["constant_p90_pct"] < summary["neighbour_share_p90_pct"]


def test_g6_free_sharing_hurts_one_side_only() -> None:
    big = orion_profile(folder("orion") / "model_kernels" / "bert_2_fwd.csv")
    small = orion_profile(folder("orion") / "model_kernels" / "resnet50_4_fwd.csv")
    outcome = play(V100, [Tenant(big, 0.5), Tenant(small, 0.5)], np.zeros((2, 12)), SYSTEMS["UNBOUND"])
    slowdown = [np.nanmean(row) / p.solo_ms for row, p in zip(outcome.latency_ms, (big, small), strict=True)]
    assert slowdown[0] <= 1.25
    assert slowdown[1] >= 2.5


@pytest.mark.parametrize("system", ["TEMPORAL", "MIG", "GSLICE", "UNBOUND"])
def test_g7_baselines_meet_their_published_latencies(system: str) -> None:
    errors = [simulated(a, w, system) / published()[a, w, system] - 1.0 for a in GRID for w in LOADS]
    assert np.mean(np.abs(errors)) <= 0.10


@pytest.mark.parametrize("system", ["REEF+", "BLESS-L"])
def test_g7_squads_and_padding_come_near_their_published_latencies(system: str) -> None:
    name = "BLESS" if system == "BLESS-L" else system
    errors = [simulated(a, w, system) / published()[a, w, name] - 1.0 for a in GRID for w in LOADS]
    assert np.mean(np.abs(errors)) <= 0.10


def test_g7_bless_gains_what_it_published() -> None:
    for system, gain in {"TEMPORAL": 37.3, "MIG": 34.2, "GSLICE": 21.1, "UNBOUND": 16.5, "REEF+": 13.5}.items():
        ours = np.mean([1.0 - simulated(a, w, "BLESS-L") / simulated(a, w, system) for a in GRID for w in LOADS])
        assert 100.0 * ours == pytest.approx(gain, abs=5.0)


def test_g8_order_under_light_load() -> None:
    for app in GRID:
        found = {s: simulated(app, "C", s) for s in ("TEMPORAL", "MIG", "GSLICE", "UNBOUND", "REEF+", "BLESS-L")}
        ordered = sorted(found, key=found.__getitem__)
        assert ordered[0] == "BLESS-L"
        assert set(ordered[-2:]) == {"TEMPORAL", "MIG"}
        if app != "BERT":
            assert ordered[1] == "REEF+"


def test_g9_squads_save_what_figure_17_says() -> None:
    cases: list[tuple[str, str, tuple[int, int]]] = [
        *(("NasNet", "BERT-small", counts) for counts in ((20, 180), (30, 170), (40, 160))),
        *(("BERT-small", "ResNet50", counts) for counts in ((44, 6), (42, 8), (40, 10))),
        *(("NasNet", "ResNet50", counts) for counts in ((25, 25), (24, 26), (26, 24))),
    ]
    saved = {mode: 100.0 * np.mean([squad_gain(*case, mode) for case in cases]) for mode in (NSP, SP, SEMI_SP)}
    free, strict, semi = saved[NSP], saved[SP], saved[SEMI_SP]
    assert free < strict < semi
    assert [free, strict, semi] == pytest.approx([6.5, 12.9, 17.6], abs=4.0)


@pytest.mark.parametrize("mix", sorted(MULTI))
def test_g10_many_tenants(mix: str) -> None:
    app, quotas = MULTI[mix]
    latency = {
        s: crowd(mix, SYSTEMS[s])[1].latency_ms[:, 0] for s in ("TEMPORAL", "GSLICE", "BLESS-R", "slack-guarded")
    }
    line = np.array([app.solo_ms / q for q in quotas])
    assert np.median(latency["TEMPORAL"] / line) == pytest.approx(1.1, abs=0.2)
    assert latency["BLESS-R"].mean() < latency["GSLICE"].mean() < latency["TEMPORAL"].mean()
    assert latency["slack-guarded"].mean() < latency["BLESS-R"].mean()


@functools.cache
def uneven(pair: tuple[str, str], load: str, quota: float, system: str) -> tuple[float, float]:
    """Mean latencies of two applications that may differ, at the quotas `quota` and the rest."""
    profiles = [synthesise(A100_APPS[SHORT[app]], A100.sms) for app in pair]
    quotas = (quota, 1.0 - quota)
    tenants = [Tenant(p, q, iso_ms(p, q, A100)) for p, q in zip(profiles, quotas, strict=True)]
    think = [think_times(p.solo_ms, load, 0, 2, requests=30)[row] for row, p in enumerate(profiles)]
    mean = np.nanmean(play(A100, tenants, np.array(think), SYSTEMS[system]).latency_ms[:, 3:], axis=1)
    return float(mean[0]), float(mean[1])


def deviation_ms(system: str) -> float:
    """Time beyond the promise, summed over both tenants, over figure 14's nine pairs and seven quota splits."""
    late = []
    for name in sorted({r["pair"] for r in read_rows(folder("bless-paper") / "fig14_latency_deviation.csv")}):
        first, second = name.split("+")
        promised = [synthesise(A100_APPS[SHORT[app]], A100.sms) for app in (first, second)]
        for part in range(6, 13):
            quota = part / 18
            for load in ("A", "B"):
                mean = uneven((first, second), load, quota, system)
                late.append(
                    sum(
                        max(ms - iso_ms(profile, q, A100), 0.0)
                        for ms, profile, q in zip(mean, promised, (quota, 1.0 - quota), strict=True)
                    )
                )
    return float(np.mean(late))


def test_g11_quotas_are_kept_better_by_squads_than_by_caps_than_by_turns() -> None:
    found = {s: deviation_ms(s) for s in ("BLESS-R", "BLESS-Q", "GSLICE", "TEMPORAL", "slack-guarded")}
    assert found["TEMPORAL"] == pytest.approx(14.3, rel=0.15)
    assert found["GSLICE"] == pytest.approx(2.04, rel=0.15)
    for squads in ("BLESS-R", "BLESS-Q", "slack-guarded"):
        assert found[squads] < 1.0 < found["GSLICE"] < found["TEMPORAL"]


@pytest.mark.parametrize("system", ["BLESS-R", "BLESS-Q"])
def test_squads_at_uneven_quotas_come_near_figure_12(system: str) -> None:
    errors = []
    for row in read_rows(folder("bless-paper") / "fig12_latency_chart.csv"):
        if row["system"] != "BLESS":
            continue
        mean = uneven((row["app1"], row["app2"]), row["workload"], float(Fraction(row["app1_quota"])), system)
        errors += [mean[i] / float(row[f"app{i + 1}_avg_latency_ms"]) - 1.0 for i in (0, 1)]
    assert np.mean(np.abs(errors)) <= 0.12


def qos_missed_pct(system: str) -> float:
    cells = [pair(A100_APPS[a], load, SYSTEMS[system], s, targets=t) for a in GRID for load, t in QOS.items()
             for s in (0, 1)]  # fmt: skip
    return 100.0 * float(np.mean([cell.missed for cell in cells]))


def test_tight_targets_are_missed_as_published_by_caps_and_free_sharing() -> None:
    assert qos_missed_pct("GSLICE") == pytest.approx(50.1, abs=5.0)
    assert qos_missed_pct("UNBOUND") == pytest.approx(38.8, abs=5.0)


def test_tight_targets_reading_q_comes_nearest_to_the_published_misses() -> None:
    """Published: 0.6 %. This reading comes within five points and misses much in one model only."""
    found = {s: qos_missed_pct(s) for s in ("BLESS-L", "BLESS-R", "BLESS-Q")}
    assert found["BLESS-Q"] == pytest.approx(0.6, abs=5.0)
    assert found["BLESS-Q"] < 0.25 * found["BLESS-R"] < found["BLESS-L"]
    others = [
        pair(A100_APPS[a], load, SYSTEMS["BLESS-Q"], s, targets=t).p99
        for a in GRID if a != "VGG11" for load, t in QOS.items() for s in (0, 1)
    ]  # fmt: skip
    assert max(others) <= 1.02


@pytest.mark.parametrize("quota", [1 / 3, 4 / 9, 1 / 2])
@pytest.mark.parametrize("app", GRID)
def test_nobody_is_late_more_often_than_with_the_better_squads(app: str, quota: float) -> None:
    """At the densest load, where the tight tenant of an uneven pair has least to give."""
    cells = {
        s: pair(A100_APPS[app], "A", SYSTEMS[s], 0, quotas=(quota, 1.0 - quota))
        for s in ("BLESS-L", "BLESS-R", "slack-guarded")
    }
    ours = cells.pop("slack-guarded")
    better = min(cells.values(), key=lambda cell: cell.mean_ms)
    assert ours.mean_ms < better.mean_ms
    assert ours.missed <= better.missed
    assert ours.p99 <= better.p99


def test_g6_the_shape_is_the_one_measured_on_another_device() -> None:
    rows = read_rows(folder("disb") / "colocation_summary.csv")
    measured = {r["client"]: float(r["slowdown"]) for r in rows if (r["framework"], r["workload"]) == ("trt", "B")}
    clients = disb_clients(folder("disb") / "workloads" / "B.json")
    assert {c.name for c in clients} == set(measured)
    assert all(c.kind == "continuous" for c in clients)
    big = orion_profile(folder("orion") / "model_kernels" / "bert_2_fwd.csv")
    small = orion_profile(folder("orion") / "model_kernels" / "resnet50_4_fwd.csv")
    outcome = play(V100, [Tenant(big, 0.5), Tenant(small, 0.5)], np.zeros((2, 12)), SYSTEMS["UNBOUND"])
    ours = [np.nanmean(row) / p.solo_ms for row, p in zip(outcome.latency_ms, (big, small), strict=True)]
    assert ours[0] == pytest.approx(measured["vgg19_rt"], rel=0.2)
    assert ours[1] == pytest.approx(measured["resnet152_be"], rel=0.2)


@pytest.mark.parametrize("card", ["2080ti", "3080"])
def test_memory_use_foretells_who_disturbs_whom_before_anything_was_seen(card: str) -> None:
    use = gpulet_utilisation(folder("gpulet") / card / "UTIL.CSV")
    book = empty_book()
    apps = [InterferenceApp(model, batch, memory) for (model, batch), memory in sorted(use.items())]
    prior = [book.rho(a, b).mean for a in apps for b in apps]
    together = [a.memory + b.memory for a in apps for b in apps if a.memory is not None and b.memory is not None]
    assert np.corrcoef(prior, together)[0, 1] > 0.99
    assert 0.0 < min(prior) < max(prior) < 0.2


def test_g12_mig_tables_are_read_whole_and_rise_with_size() -> None:
    for path in sorted((folder("parvagpu") / "prof_data").glob("*.csv")):
        table = parva_table(path)
        for (slices, batch, processes), (rate, latency) in table.items():
            assert rate > 0.0
            assert latency > 0.0
            bigger = table.get((7, batch, processes))
            if bigger is not None and slices < 7:
                assert bigger[0] >= 0.9 * rate
    steps = miso_times(folder("miso") / "mig_iteration_time_a100.csv")
    assert all(times[max(times)] <= 1.05 * times[min(times)] for times in steps.values())


def measured(path: Path) -> list[Measured]:
    return [Measured(slices, *found) for (slices, _, _), found in parva_table(path).items()]


@pytest.mark.parametrize("scenario", range(6))
def test_g12_the_packer_needs_no_more_devices_than_the_published_plans(scenario: int) -> None:
    data = folder("parvagpu")
    models = sorted(path.stem for path in (data / "prof_data").glob("*.csv"))
    limits, rates = (
        (data / "SLO" / f"SLO_{name}.csv").read_text().splitlines()[scenario].split(",")
        for name in ("latency", "req_rate")
    )
    # Their plans keep within half of the promise, which leaves the other half for the queue.
    services = [
        Service(model, float(rate), best_rates(measured(data / "prof_data" / f"{model}.csv"), float(limit) / 2.0))
        for model, limit, rate in zip(models, limits, rates, strict=True)
        if rate.strip() != "N/A"
    ]
    ours = plan(services)
    assert all(fits([seat.slices for seat in held]) for held in ours)
    for service in services:
        seats = [seat.slices for held in ours for seat in held if seat.service == service.name]
        assert sum(service.rates[size] for size in seats) >= service.rate
    theirs = read_rows(data / "deployment" / f"SLO{scenario + 1}" / f"SLO{scenario + 1}_ParvaGPU_deploy.csv")
    assert len(ours) <= len({(r["Num instance"], r["Num GPU"]) for r in theirs})


def test_other_vendors_profiles_run_too() -> None:
    from dure.sim.gpu.device import MI50

    profiles = reef_profiles(folder("reef"))
    assert len(profiles) >= 5
    for profile in profiles.values():
        alone = play(MI50, [Tenant(profile, 1.0)], np.zeros((1, 1)), SYSTEMS["UNBOUND"])
        assert alone.latency_ms[0, 0] == pytest.approx(profile.solo_ms, rel=0.01)
