"""The values that `dure render tenant` writes for vcluster are taken by the schema of its own chart."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
import yaml

from dure.manifest.render.vcluster import vcluster_values
from dure.model.tenant import Isolation, Tenant
from lab.crds import vcluster_schema

pytestmark = pytest.mark.lab


def test_the_chart_of_vcluster_takes_what_is_rendered_and_nothing_misspelt() -> None:
    schema = jsonschema_rs.validator_for(json.loads(vcluster_schema().read_text("utf-8")))
    values: dict[str, Any] = yaml.safe_load(vcluster_values(Tenant("robots", isolation=Isolation.OWN_CLUSTER)))
    assert [str(error) for error in schema.iter_errors(values)] == []
    values["sync"]["toHost"]["pod"] = {"enabled": True}
    assert not schema.is_valid(values)
