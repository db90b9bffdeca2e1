"""The cache of built binaries: what counts as finished, and what is built again."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from lab.build import ensure, lacking, require_disk
from lab.cache import MANIFEST, Cache, key
from lab.errors import BuildFailed, TooLittleDisk
from lab.progress import Progress
from lab.versions import BY_NAME, ETCD, KUBERNETES, KUEUE, Artifact, Family

PLENTY = 1_000_000


class FakeBuilder:
    """Writes a small file where Go would write a program, and counts."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def __call__(self, artifact: Artifact, folder: Path, _: object) -> None:
        self.built.append(artifact.name)
        (folder / artifact.name).write_bytes(b"program " + artifact.name.encode())


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", "x86_64")


def build(cache: Cache, builder: FakeBuilder, *names: str, free_mib: int = PLENTY) -> dict[str, Path]:
    def quiet(_: str) -> None:
        return

    return ensure(names, cache=cache, builder=builder, free_mib=lambda _: free_mib, tell=quiet)


def test_what_was_built_once_is_not_built_again(cache: Cache) -> None:
    builder = FakeBuilder()
    first = build(cache, builder, "etcd", "kwok")
    second = build(cache, builder, "etcd", "kwok")
    assert builder.built == ["etcd", "kwok"]
    assert first == second
    assert (first["etcd"] / "etcd").read_bytes() == b"program etcd"


def test_the_most_needed_is_built_first_whatever_the_order_asked(cache: Cache) -> None:
    builder = FakeBuilder()
    build(cache, builder, "kueue", "kubectl", "kube-apiserver", "etcd")
    assert builder.built == ["etcd", "kube-apiserver", "kubectl", "kueue"]


def test_what_is_on_demand_is_built_only_when_named(cache: Cache) -> None:
    builder = FakeBuilder()
    ensure(None, cache=cache, builder=builder, free_mib=lambda _: PLENTY, tell=lambda _: None)
    assert {"kube-apiserver", "kueue", "prometheus"} <= set(builder.built)
    assert not {"keda-operator", "karpenter"} & set(builder.built)
    assert lacking(["etcd", "karpenter"], cache=cache) == ["karpenter"]
    build(cache, builder, "karpenter")
    assert lacking(["etcd", "karpenter"], cache=cache) == []


@pytest.mark.parametrize("damage", ["truncate", "flip", "no manifest", "broken manifest", "no program", "empty"])
def test_a_half_written_entry_is_built_again(cache: Cache, damage: str) -> None:
    builder = FakeBuilder()
    entry = build(cache, builder, "etcd")["etcd"]
    program, manifest = entry / "etcd", entry / MANIFEST
    match damage:
        case "truncate":
            program.write_bytes(program.read_bytes()[:-1])
        case "flip":
            program.write_bytes(program.read_bytes()[:-1] + b"x")
        case "no manifest":
            manifest.unlink()
        case "broken manifest":
            manifest.write_text(manifest.read_text()[:20])
        case "no program":
            program.unlink()
        case _:
            manifest.write_text(json.dumps({"files": {}}))
    assert not cache.holds(BY_NAME["etcd"])
    build(cache, builder, "etcd")
    assert builder.built == ["etcd", "etcd"]
    assert cache.holds(BY_NAME["etcd"])


def test_a_build_that_fails_leaves_no_entry_and_the_next_one_succeeds(cache: Cache) -> None:
    def failing(artifact: Artifact, folder: Path, _: object) -> None:
        (folder / artifact.name).write_bytes(b"half")
        raise BuildFailed("disk on fire")

    with pytest.raises(BuildFailed, match="disk on fire"):
        ensure(["etcd"], cache=cache, builder=failing, free_mib=lambda _: PLENTY, tell=lambda _: None)
    assert not cache.entry(BY_NAME["etcd"]).exists()
    builder = FakeBuilder()
    build(cache, builder, "etcd")
    assert builder.built == ["etcd"]


def test_leftovers_of_a_killed_builder_do_not_get_into_the_entry(cache: Cache) -> None:
    entry = cache.entry(BY_NAME["etcd"])
    partial = entry.with_name(f".{entry.name}.partial")
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("from last time")
    found = build(cache, FakeBuilder(), "etcd")["etcd"]
    assert {path.name for path in found.iterdir()} == {"etcd", MANIFEST}


def test_the_key_changes_with_dependencies_recipe_and_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.versions.GO_DIR", tmp_path)
    shutil.copytree(Path(__file__).parents[2] / "lab" / "go" / "etcd", tmp_path / "etcd")
    artifact = BY_NAME["etcd"]
    keys = [key(artifact, "x86_64"), key(artifact, "aarch64")]
    keys.append(key(dataclasses.replace(artifact, package="another/main"), "x86_64"))
    with (tmp_path / "etcd" / "go.sum").open("a") as checksums:
        checksums.write("example.org/dep v1.0.0 h1:x=\n")
    keys.append(key(artifact, "x86_64"))
    assert len(set(keys)) == 4


def test_a_new_version_is_a_new_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    builder = FakeBuilder()
    old = build(cache, builder, "etcd")["etcd"]
    monkeypatch.setattr("lab.versions.GO_DIR", tmp_path)
    shutil.copytree(Path(__file__).parents[2] / "lab" / "go" / "etcd", tmp_path / "etcd")
    module = tmp_path / "etcd" / "go.mod"
    module.write_text(module.read_text().replace(ETCD.version, "v3.99.0"))
    new = build(cache, builder, "etcd")["etcd"]
    assert builder.built == ["etcd", "etcd"]
    assert "v3.99.0" in new.name
    assert old != new


def test_too_little_disk_is_said_before_anything_is_built(cache: Cache) -> None:
    builder = FakeBuilder()
    with pytest.raises(TooLittleDisk, match="1000 MiB are free; make room, or point DURE_CACHE"):
        build(cache, builder, "kube-apiserver", free_mib=1000)
    assert builder.built == []


def test_folders_on_one_file_system_share_its_free_space(tmp_path: Path) -> None:
    needs = {tmp_path / "a": lambda _: 400, tmp_path / "b": lambda _: 400}
    require_disk([BY_NAME["etcd"]], needs, lambda _: 1200)
    with pytest.raises(TooLittleDisk, match="needs about 1100 MiB"):
        require_disk([BY_NAME["etcd"]], needs, lambda _: 1000)


def test_an_unknown_artifact_is_named_with_those_that_exist(cache: Cache) -> None:
    with pytest.raises(BuildFailed, match=r"no artifact kube-proxy; it has etcd, kube-apiserver"):
        build(cache, FakeBuilder(), "kube-proxy")


def test_versions_are_read_from_the_modules() -> None:
    assert KUBERNETES.version.startswith("v1.36.")
    assert KUEUE.version.startswith("v0.")
    assert f"-X k8s.io/component-base/version.gitVersion={KUBERNETES.version}" in KUBERNETES.ldflags
    assert Family("etcd", ETCD.module).ldflags == "-s -w"


def test_the_estimate_follows_the_pace_of_this_machine() -> None:
    slow, fast = Artifact("slow", ETCD, cold_s=100), Artifact("fast", ETCD, cold_s=10)
    progress = Progress([fast, slow], cores=2)
    assert progress.remaining_s() == pytest.approx(110)
    progress.finished(20)
    assert progress.remaining_s() == pytest.approx(200)
    assert progress.remaining_s(elapsed_s=150) == pytest.approx(50)
    assert progress.remaining_s(elapsed_s=900) == pytest.approx(20), "never nothing while it still builds"
    progress.finished(200)
    assert progress.remaining_s() == 0
