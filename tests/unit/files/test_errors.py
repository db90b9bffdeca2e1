# ruff: noqa: E501 - a table with one case a line is read best whole
"""Every way to get a file wrong has one clear message: place, key, what was found, what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dure.files import InvalidFile, parse_workload_json, read_files, read_text
from dure.files.builtin import demo_fleet
from dure.model.errors import InvalidInput

FLEET = """\
apiVersion: dure.dev/v1alpha1
kind: Fleet
metadata: {name: f}
spec:
  clusters:
    - name: a
      region: kr-a
      pools:
        - name: p
          class: a10g
          nodes: 2
          devices: 4
          price: {onDemand: 1700/h}
"""
WORKLOAD = """\
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: w, tenant: search}
spec:
  type: training
  classes: [{name: a10g, speed: 1}]
  demand: {devices: 1, memory: 20GiB}
  duration: 2h
"""
SERVING = """\
apiVersion: dure.dev/v1alpha1
kind: Workload
metadata: {name: s, tenant: search}
spec:
  type: serving
  classes: [a10g]
  demand: {memory: 8GiB, compute: 50%}
  replicas: {min: 1, max: 4}
"""


def refusal(text: str) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_text(text, "f.yaml")
    return caught.value


def only(text: str) -> str:
    error = refusal(text)
    assert len(error.problems) == 1, str(error)
    return str(error.problems[0])


def warnings(text: str, with_demo: bool = False) -> list[str]:
    fleet = demo_fleet() if with_demo else None
    return [str(warning) for warning in read_text(text, "f.yaml", fleet=fleet).warnings]


def test_the_documents_of_these_tests_are_sound() -> None:
    documents = read_text(f"{FLEET}---\n{WORKLOAD}---\n{SERVING}")
    assert (len(documents.fleets), len(documents.workloads)) == (1, 2)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # unknown keys, with the nearest valid one
        ("onDemand: 1700/h", "onDemnd: 1700/h", "f.yaml:13:19: spec.clusters[0].pools[0].price: unknown key 'onDemnd'; allowed: currency, owned, onDemand"),
        ("onDemand: 1700/h", "onDemnd: 1700/h", "Did you mean 'onDemand'?"),
        ("region: kr-a", "regoin: kr-a", "f.yaml:7:7: spec.clusters[0]: unknown key 'regoin'"),
        # wrong units
        ("1700/h", "1700/d", "f.yaml:13:29: spec.clusters[0].pools[0].price.onDemand: '1700/d': the unit '/d' is not one of a price per device and hour; allowed: /h"),
        ("1700/h", "1700", "1700: a price per device and hour needs a unit; allowed: /h"),
        # negative and impossible numbers
        ("nodes: 2", "nodes: -2", "f.yaml:11:18: spec.clusters[0].pools[0].nodes: may not be negative, found -2"),
        ("1700/h", "-1700/h", "'-1700/h': a price per device and hour may not be negative"),
        ("devices: 4", "devices: 4.5", "expected a whole number, found 4.5"),
        ("nodes: 2", "nodes: true", "expected a whole number, found true"),
        # missing and empty
        ("  clusters:", "  tenants: []\n  x:", "the key 'clusters' is missing"),
        ("          class: a10g\n", "", "f.yaml:9:11: spec.clusters[0].pools[0]: the key 'class' is missing: Accelerator class"),
        ("name: a\n", "name: ''\n", "spec.clusters[0].name: may not be empty"),
        ("name: a\n", "name: 5\n", "expected text, found 5\n  Put it in quotes."),
        ("name: a\n", "name: Seoul A\n", "'Seoul A' is not allowed: use lower-case letters"),
        # unknown names
        ("class: a10g", "class: a10gg", "f.yaml:10:18: spec.clusters[0].pools[0].class: unknown accelerator class 'a10gg'\n  Did you mean 'a10g'?"),
        ("region: kr-a", "timezone: Asia/Soul", "'Asia/Soul' is not a time zone like Asia/Seoul\n  Did you mean 'Asia/Seoul'?"),
        ("devices: 4", "share: [exclusive, mig]", "class 'a10g' cannot be shared by mig; it can: exclusive, mps, timeslice"),
        ("devices: 4", "share: [exclusiv]", "'exclusiv' is not one of exclusive, mig, mps, timeslice, vnpu\n  Did you mean 'exclusive'?"),
        # prices
        ("{onDemand: 1700/h}", "{}", "has no price per hour: one of owned, onDemand and spot is needed"),
        ("{onDemand: 1700/h}", "{currency: USD, spot: 1/h}", "no exchange rate from USD to KRW\n  Add it to the fleet: spec.exchange"),
        ("devices: 4", "capacity: spot", "has no price for capacity 'spot'"),
        ("1700/h", "{daily: {9-18: 1/h}}", "no price for monday 0:00\n  Add the key 'default'."),
        ("1700/h", "{default: 1/h, mondays: 2/h}", "unknown key 'mondays'; allowed: default, daily, weekdays"),
        ("1700/h", "{default: 1/h, daily: {9-25: 2/h}}", "'9-25' is not a span of hours; write 9-18 or 22-8"),
        # sizes and connections
        ("devices: 4", "nodesMax: 1", "nodesMax: 1 is less than the 2 nodes there are"),
        ("devices: 4", "linkGroup: 8", "linkGroup: 8 is more than the 1 devices of a node"),
        ("region: kr-a", "connect: {agent: joined, embedded: {}}", "must have exactly one of kubeconfig, embedded and agent, found embedded and agent"),
        ("region: kr-a", "connect: {}", "found none of them"),
        ("kind: Fleet", "kind: Flet", "f.yaml:2:7: kind: unknown kind 'Flet'; allowed: Fleet, Workload, Tenant, Policy\n  Did you mean 'Fleet'?"),
        ("kind: Fleet\n", "", "the key 'kind' is missing; allowed: Fleet"),
        ("v1alpha1", "v2", "apiVersion: expected 'dure.dev/v1alpha1', found 'dure.dev/v2'"),
    ],
)  # fmt: skip
def test_a_wrong_fleet_is_told_why(old: str, new: str, words: str) -> None:
    assert old in FLEET
    assert words in str(refusal(FLEET.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("memory: 20GiB", "memory: 40GiB", "f.yaml:7:32: spec.demand.memory: 40 GiB per device is more than any accepted class has; the largest is a10g with 24 GiB"),
        ("devices: 1", "compute: 150%", "spec.demand.compute: 150 % is more than a whole device"),
        ("memory: 20GiB", "compute: 50%", "a share is asked for beside 1 whole devices"),
        ("devices: 1, memory: 20GiB", "cpu: 4", "spec.demand: asks for nothing"),
        ("duration: 2h", "duration: 2h\n  deadline: 1h", "spec.deadline: 1 h is too short: on a10g, the fastest class, it takes 2 h"),
        ("name: a10g", "name: a10g-x", "spec.classes[0]: unknown accelerator class 'a10g-x'\n  Did you mean 'a10g'?"),
        ("speed: 1}", "speed: 1}, {name: a10g}", "spec.classes[1]: the name 'a10g' is already used by spec.classes[0]"),
        ("speed: 1", "speed: 0", "must be more than 0, found 0"),
        ("speed: 1", "speed: 2", "the first class is the measure: its speed is 1, found 2"),
        ("  classes: [{name: a10g, speed: 1}]\n", "", "the key 'classes' is missing, and the catalogue has no model to take it from"),
        ("duration: 2h", "gang: 0", "spec.gang: must be from 1 to 100000, found 0"),
        ("duration: 2h", "replicas: {min: 1, max: 3}", "a training workload has a gang, not replicas"),
        ("duration: 2h", "rate: 5/s", "only a serving workload takes requests"),
        ("duration: 2h", "slo: {availability: 99%}", "only a serving workload has an SLO"),
        ("duration: 2h", "share: [mig]", "1 whole devices need the mode 'exclusive'"),
        ("duration: 2h", "regions: ['kr central']", "'kr central' is not allowed: use letters"),
        ("duration: 2h", "template: nginx", "spec.template: expected a mapping, found 'nginx'"),
        ("tenant: search", "tennant: search", "metadata: unknown key 'tennant'; allowed: name, tenant\n  Did you mean 'tenant'?"),
        ("type: training", "type: trainig", "'trainig' is not one of training, batch, serving\n  Did you mean 'training'?"),
    ],
)  # fmt: skip
def test_a_wrong_workload_is_told_why(old: str, new: str, words: str) -> None:
    assert old in WORKLOAD
    assert words in only(WORKLOAD.replace(old, new))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  gang: 4\n", "spec.gang: a serving workload has replicas, not a gang"),
        ("  deadline: 4h\n", "a serving workload does not end"),
        ("  share: [vnpu]\n", "none of these modes is possible on the accepted classes; possible: exclusive, mps, timeslice"),
    ],
)  # fmt: skip
def test_a_wrong_serving_workload_is_told_why(line: str, words: str) -> None:
    assert words in only(SERVING + line)


def test_more_replicas_at_least_than_at_most_is_nonsense() -> None:
    assert "spec.replicas: min 5 is more than max 4" in only(SERVING.replace("min: 1", "min: 5"))


def test_names_are_unique_within_and_across_documents() -> None:
    assert "Workload 'w' is already defined in f.yaml:1:1" in only(f"{WORKLOAD}---\n{WORKLOAD}")
    twins = FLEET + FLEET[FLEET.index("        - name: p") :]
    assert "the name 'p' is already used by spec.clusters[0].pools[0]" in only(twins)


def test_all_problems_are_told_at_once_and_at_most_twenty_shown() -> None:
    wrong = "".join(f"  key{n}: 1\n" for n in range(25))
    error = refusal(WORKLOAD + wrong)
    assert len(error.problems) == 25
    assert str(error).count("unknown key") == 20
    assert str(error).endswith("and 5 more problems")


def test_an_error_is_invalid_input_with_exit_code_and_place() -> None:
    error = refusal("kind: Nothing")
    assert isinstance(error, InvalidInput)
    assert (error.exit_code, error.status, error.where) == (2, 400, "f.yaml:1:7")


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n"])
def test_a_file_without_documents_says_so(text: str) -> None:
    assert "f.yaml: has no document" in only(text)


@pytest.mark.parametrize("text", ["- a", "hello", "5"])
def test_a_document_must_be_a_mapping(text: str) -> None:
    assert "expected a document with apiVersion, kind, metadata and spec" in only(text)


def test_quota_of_an_unknown_class_is_refused() -> None:
    text = "apiVersion: dure.dev/v1alpha1\nkind: Tenant\nmetadata: {name: t}\nspec: {quota: {h100-80gb-sxn: 8}}\n"
    assert only(text).startswith("f.yaml:4:31: spec.quota.h100-80gb-sxn: unknown accelerator class")


def test_a_class_with_impossible_slices_is_refused() -> None:
    own = """\
  classes:
    - name: mine
      kind: npu
      memory: 16GiB
      tops: {bf16: 10}
      peak: 100W
      share: [exclusive, mig, vnpu]
      vnpu:
        slots: 2
        computeSlices: 2
        profiles: [{name: x, slots: 2, starts: [1], computeSlices: 3, memory: 32GiB, compute: 50%, most: 1}]
"""
    words = str(refusal(FLEET + own))
    assert "spec.classes[0]: shares by mig but has no 'mig' geometry" in words
    assert "slice 'x' ends beyond slot 2" in words
    assert "slice 'x' has more compute slices than the device" in words
    assert "slice 'x' has more memory than the device" in words


def test_what_a_fleet_cannot_give_is_a_warning() -> None:
    text = SERVING.replace("[a10g]", "[l40s]") + "  regions: [jp-*]\n  model: chat-7\n"
    found = "\n".join(warnings(text.replace("tenant: search", "tenant: serch"), with_demo=True))
    assert "spec.regions[0]: 'jp-*' matches no region of the fleet" in found
    assert "no pool of the fleet has any of the accepted classes" in found
    assert "unknown model 'chat-7': taken to load at once\n  Did you mean 'chat-7b'?" in found
    assert "the fleet has no tenant 'serch'\n  Did you mean 'search'?" in found


def test_classes_on_which_the_demand_never_fits_are_warned_of() -> None:
    text = SERVING.replace("[a10g]", "[l40s, a10g, t4]").replace("8GiB", "20GiB")
    found = "\n".join(warnings(text))
    assert "spec.classes[1]: the demand is 258.6 % of a a10g, more than a whole one" in found
    assert "spec.classes[2]: t4 has 16 GiB, less than the 20 GiB asked for" in found


def test_more_devices_than_any_node_has_is_warned_of() -> None:
    text = WORKLOAD.replace("devices: 1", "devices: 16")
    assert "no node of the fleet has more than 4 devices" in "\n".join(warnings(text, with_demo=True))


def test_quotas_beyond_the_fleet_are_warned_of() -> None:
    text = FLEET + "  tenants: [{name: t, quota: {a10g: 99}}]\n"
    assert "quotas of 'a10g' add up to 99, the fleet has 8" in "\n".join(warnings(text))


def test_classes_and_speeds_come_from_the_model_when_left_out() -> None:
    text = WORKLOAD.replace("  classes: [{name: a10g, speed: 1}]\n", "  model: chat-13b\n")
    (workload,) = read_text(text).workloads
    assert [(each.name, each.speed) for each in workload.classes][:2] == [
        ("a100-80gb-sxm", 1.0),
        ("h100-80gb-sxm", 1.7),
    ]


def test_a_users_own_class_is_known_to_pools_and_workloads() -> None:
    own = "  classes: [{name: mine, kind: npu, memory: 64GiB, tops: {bf16: 10}, peak: 100W}]\n"
    fleet = FLEET.replace("class: a10g", "class: mine") + own
    documents = read_text(f"{fleet}---\n{WORKLOAD.replace('a10g', 'mine')}")
    assert documents.fleets[0].classes["mine"].memory_mib == 64 * 1024


def test_a_missing_file_and_a_large_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="there is no such file"):
        read_files([tmp_path / "nothing.yaml"])
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(50 * 2**20)
    with pytest.raises(InvalidFile, match=r"50\.0 MiB is too large; a file may have 5 MiB"):
        read_files([large])


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(WORKLOAD)
    (tmp_path / "a.yml").write_text(FLEET)
    (tmp_path / "notes.txt").write_text("not YAML: [")
    documents = read_files([tmp_path])
    assert [fleet.name for fleet in documents.fleets] == ["f"]
    assert [workload.name for workload in documents.workloads] == ["w"]


def test_a_request_body_gets_the_same_checks() -> None:
    body = {"metadata": {"name": "w"}, "spec": {"type": "batch", "classes": ["a10g"], "demand": {"memory": "8GiB"}}}
    workload = parse_workload_json(body, tenant="search")
    assert (workload.tenant, workload.demand.memory_mib) == ("search", 8192)
    body["spec"] = {"type": "batch", "classes": ["a10g"], "demand": {"memory": "80GiB"}}
    with pytest.raises(InvalidFile, match=r"spec\.demand\.memory: 80 GiB per device") as caught:
        parse_workload_json(body)
    assert caught.value.where == "request body"


@pytest.mark.parametrize(
    "body", [b"", b"[]", None, 5, {"kind": "Fleet"}, {}, b"a: 1\n---\nb: 2", {"spec": float("nan")}]
)
def test_a_request_body_that_is_no_workload_is_refused(body: object) -> None:
    with pytest.raises(InvalidFile):
        parse_workload_json(body)


POLICY = """\
apiVersion: dure.dev/v1alpha1
kind: Policy
metadata: {{name: p}}
spec: {{{spec}}}
"""
WRONG_POLICIES = [
    ("verb: place, settings: {moveTreshold: 0.2}", "Did you mean 'moveThreshold'?"),
    ("verb: place, settings: {horizonH: soon}", "horizon_h"),
    ("verb: scale, settings: {windowS: 60}", "do not fit into a window of 60 s"),
    ("verb: scale, settings: {calmS: 0}", "calm s must be more than 0"),
    ("verb: scale, algorithm: hpa", "no way of scaling 'hpa'"),
    ("verb: scale, goals: [{spot: false}]", "are for the verb place, this policy is for scale"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG_POLICIES)
def test_settings_of_a_policy_are_checked_where_its_file_is_read(spec: str, said: str) -> None:
    found = only(POLICY.format(spec=spec))
    assert found.startswith("f.yaml:4:")
    assert said in found


@pytest.mark.parametrize(("spec", "said"), WRONG_POLICIES)
def test_settings_of_a_fleets_own_policies_are_checked_with_it(spec: str, said: str) -> None:
    found = only(FLEET + f"  policies:\n    - {{name: good, verb: place}}\n    - {{name: p, {spec}}}\n")
    assert "spec.policies[1]" in found
    assert said in found
