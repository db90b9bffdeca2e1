"""The same traps in other spellings, and look-alikes that are right."""

from __future__ import annotations

import textwrap

import pytest

from dure.files.builtin import instances
from dure.files.manifests import read_source
from dure.manifest.lint import lint


def codes(text: str) -> set[str]:
    return {each.code for each in lint(list(read_source(textwrap.dedent(text), "x.yaml").documents), instances())}


SCALED = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{name: chat}}
spec:
  scaleTargetRef: {{name: chat}}
  minReplicaCount: {least}
  triggers:
    - type: prometheus
      metadata: {{serverAddress: "http://prometheus:9090", query: '{query}', threshold: "{threshold}"}}
"""


@pytest.mark.parametrize(
    "query",
    ["sum(a_util) / count(a_util)", "max(DCGM_FI_PROF_SM_ACTIVE)", "avg without (gpu) (x)", "quantile(0.9, x)"],
)
def test_every_kind_of_mean_is_capped(query: str) -> None:
    assert "DURE001" in codes(SCALED.format(query=query, threshold="0.7", least=1))


@pytest.mark.parametrize(
    "query", ["sum(rate(requests_total[2m]))", "sum(waiting) + sum(running)", "max(queue_depth)"]
)
def test_totals_are_not_capped(query: str) -> None:
    assert codes(SCALED.format(query=query, threshold="5", least=0)) == set()


def test_waiting_to_scale_to_zero_is_what_cooldown_is_for() -> None:
    text = SCALED.format(query="sum(x)", threshold="5", least=0).replace("spec:", "spec:\n  cooldownPeriod: 600")
    assert codes(text) == set()


def test_an_hpa_that_keda_was_told_to_take_over_is_no_second_master() -> None:
    scaled = (
        SCALED.format(query="sum(x)", threshold="5", least=0).replace(
            "metadata: {name: chat}",
            'metadata: {name: chat, annotations: {scaledobject.keda.sh/transfer-hpa-ownership: "true"}}',
            1,
        )
        + "  advanced: {horizontalPodAutoscalerConfig: {name: old}}\n"
    )
    hpa = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: old}
spec: {scaleTargetRef: {kind: Deployment, name: chat}, maxReplicas: 5}
"""
    assert "DURE004" not in codes(scaled + "---" + hpa)
    assert "DURE004" in codes(scaled.replace('"true"', '"false"') + "---" + hpa)


@pytest.mark.parametrize(
    ("region", "found"), [("ap-northeast-2a", True), ("eu-west-1b", False), ("us-west-2c", True)]
)
def test_office_hours_are_judged_where_the_nodes_are(region: str, found: bool) -> None:
    text = f"""
        apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {{name: gpu}}
        spec:
          template:
            spec:
              expireAfter: Never
              nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}
              requirements: [{{key: topology.kubernetes.io/zone, operator: In, values: [{region}]}}]
          disruption: {{budgets: [{{nodes: "0", schedule: "30 8 * * mon-fri", duration: 10h}}]}}
        """
    assert ("DURE009" in codes(text)) is found


def test_an_author_who_knows_better_says_so_on_the_object() -> None:
    text = SCALED.format(query="avg(x)", threshold="70", least=1)
    noted = text.replace("{name: chat}", "{name: chat, annotations: {dure.dev/lint-ignore: 'DURE001, DURE019'}}", 1)
    assert "DURE001" in codes(text)
    assert codes(noted) == set()


def test_objects_of_a_list_are_judged_like_documents() -> None:
    text = SCALED.format(query="avg(x)", threshold="70", least=1)
    inner = textwrap.indent(text.strip(), "    ").replace("    apiVersion", "  - apiVersion", 1)
    assert codes(f"apiVersion: v1\nkind: List\nitems:\n{inner}\n") == codes(text)


def test_files_that_are_no_manifests_are_left_alone() -> None:
    assert codes("image: {tag: latest}\nreplicas: 3\n") == set()
