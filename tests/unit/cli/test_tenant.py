"""`dure tenant` as people call it; virtual clusters themselves are tried on the lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dure.cli.tenant import command
from dure.model.errors import InvalidInput


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["create", "Robots"], "is no name"),
        (["create", "robots", "--isolation", "own-moon"], "own-virtual-cluster"),
        (["create", "robots", "--virtual-cluster", "--isolation", "shared"], "own-virtual-cluster, not shared"),
        (["create", "robots", "--kubeconfig", "x"], "go with --virtual-cluster"),
        (["create", "robots", "--weight", "0"], "--weight"),
        (["delete", "robots"], "Books are kept"),
        (["serve", "--etcd", "here", "--apiserver", "/none", "--controllers", "/none"], "--etcd"),
    ],
)
def test_wrong_calls_are_refused_before_anything_is_done(args: list[str], told: str) -> None:
    answer = CliRunner().invoke(command, args)
    assert answer.exit_code == 2
    assert told in answer.stderr


def test_deleting_names_the_kubeconfig_that_cannot_be_used(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    answer = CliRunner().invoke(command, ["delete", "robots", "--virtual-cluster", "--kubeconfig", str(missing)])
    assert isinstance(answer.exception, InvalidInput)
    assert str(missing) in answer.exception.where
