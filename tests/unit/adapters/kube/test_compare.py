"""`render --diff` on clusters that lack something."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from dure.adapters.kube.compare import Comparer
from dure.adapters.kube.rest import Api, default_kubeconfig
from dure.files.dump import dump_yaml
from dure.model.errors import NotFound

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "x"}, "spec": {"ports": []}}
POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {"weight": 1}}


class OnlyServices:
    """An API server that serves core objects alone and has one Service."""

    def get(self, path: str, kind: type) -> Any:
        if path == "/api/v1":
            return {"resources": [{"name": "services", "kind": "Service", "namespaced": True}]}
        if path == "/api/v1/namespaces/x/services/a":
            return SERVICE
        raise NotFound(path)

    def apply(self, path: str, body: Any, kind: type, *, dry_run: bool) -> Any:
        assert dry_run
        return body


def test_objects_of_a_kind_without_definition_are_new_and_the_rest_is_compared() -> None:
    comparer = Comparer(cast("Api", OnlyServices()))
    changes = comparer.changes([SERVICE, POOL, POOL], lambda each: dump_yaml([each]))
    assert [change.splitlines()[1] for change in changes] == ["+++ rendered/NodePool/p"] * 2
    assert comparer.unknown == ["NodePool of karpenter.sh/v1"]


def test_the_kubeconfig_is_the_one_that_kubectl_would_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{there}")
    assert default_kubeconfig() == there
    monkeypatch.delenv("KUBECONFIG")
    assert default_kubeconfig() == tmp_path / ".kube" / "config"
