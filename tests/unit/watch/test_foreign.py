"""Figures of exporters under Dure's names, units and labels."""

from __future__ import annotations

import pytest

from dure.adapters.metrics.exposition import Reader
from dure.model.sample import Sample
from dure.watch.foreign import layer_of, signal_of

DCGM = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-1",pci_bus_id="00000000:07:00.0",device="nvidia3",modelName="NVIDIA H100",Hostname="n1",DCGM_FI_DRIVER_VERSION="570.1",container="c",namespace="search",pod="chat-0"} 70
DCGM_FI_DEV_FB_USED{gpu="3",UUID="GPU-1",device="nvidia3",modelName="NVIDIA H100",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="n1",namespace="search",pod="chat-0"} 512
DCGM_FI_DEV_POWER_VIOLATION{gpu="3",UUID="GPU-1",device="nvidia3",Hostname="n1"} 2500000
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="3",UUID="GPU-1",device="nvidia3",Hostname="n1"} 5000
DCGM_FI_DEV_VGPU_LICENSE_STATUS{gpu="3",UUID="GPU-1",device="nvidia3",Hostname="n1"} 0
"""  # noqa: E501  # as the exporter writes it
EXPORTED = (
    'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-2",Hostname="n2",namespace="gpu-operator",pod="dcgm-exporter-x",'
    'exported_namespace="search",exported_pod="chat-1",job="dcgm",instance="10.0.0.1:9400"} 5\n'
)


def read(text: str) -> list[Sample]:
    return Reader(signal_of).read(text, 1.0)


def test_hardware_counters_come_in_base_units_with_node_device_and_slice() -> None:
    busy, used, throttled, energy = read(DCGM)
    assert busy.name == "dure_device_busy_ratio"
    assert busy.value == pytest.approx(0.7)
    assert busy.labels == {
        "device": "3", "uuid": "GPU-1", "class": "NVIDIA H100", "node": "n1", "container": "c",
        "namespace": "search", "pod": "chat-0",
    }  # fmt: skip
    assert (used.value, used.labels["slice"], used.labels["profile"]) == (512 * 1024**2, "7", "1g.10gb")
    assert (throttled.name, throttled.value) == ("dure_device_power_throttle_seconds_total", 2.5)
    assert energy.value == 5.0


def test_a_scrape_that_renamed_labels_still_names_the_pod_on_the_device() -> None:
    (found,) = read(EXPORTED)
    assert found.labels == {"device": "0", "uuid": "GPU-2", "node": "n2", "namespace": "search", "pod": "chat-1"}


def test_both_names_of_the_cache_figure_are_one_signal() -> None:
    old, new = read('vllm:gpu_cache_usage_perc{model_name="m"} 0.5\nvllm:kv_cache_usage_perc{model_name="m"} 0.6\n')
    assert old.name == new.name == "dure_serving_cache_ratio"
    assert old.labels == {"model": "m"}


def test_histograms_of_an_engine_keep_their_buckets() -> None:
    (found,) = read('vllm:e2e_request_latency_seconds_bucket{model_name="m",le="0.5"} 3\n')
    assert found.name == "dure_serving_request_seconds_bucket"
    assert found.labels == {"model": "m", "le": "0.5"}


def test_every_signal_has_a_layer_and_nobody_elses_metric_has() -> None:
    assert layer_of("dure_device_busy_ratio") == "hardware"
    assert layer_of("dure_serving_waiting_count") == "software"
    assert layer_of("dure_serving_answered_total") == "software"
    assert layer_of("dure_kube_pod_phase_bool") == "cluster"
    assert layer_of("node_load1") is None
    assert read("node_load1 3\n") == []
