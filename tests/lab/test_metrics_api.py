"""What an autoscaler asks the metrics APIs, read from its paths."""

from __future__ import annotations

from lab.metrics_api import Question, read


def test_an_external_metric_is_named_by_its_last_part() -> None:
    question = read("/apis/external.metrics.k8s.io/v1beta1/namespaces/a/queue-0?labelSelector=x%3Dy")
    assert question == Question("external.metrics.k8s.io", "queue-0", "", "x=y")


def test_a_pods_metric_and_an_object_metric_say_what_they_are_about() -> None:
    pods = read("/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/%2A/rate?labelSelector=app%3Db")
    assert pods == Question("custom.metrics.k8s.io", "rate", "pods/*", "app=b")
    thing = read("/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/services/front/rate")
    assert thing == Question("custom.metrics.k8s.io", "rate", "services/front", "")


def test_resource_metrics_have_no_name_and_discovery_is_no_question() -> None:
    usage = read("/apis/metrics.k8s.io/v1beta1/namespaces/a/pods?labelSelector=app%3Db")
    assert usage == Question("metrics.k8s.io", "", "pods", "app=b")
    assert read("/apis/metrics.k8s.io/v1beta1") is None
