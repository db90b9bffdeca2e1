"""`dure render`: manifests for a cluster, on standard output, in a folder, or compared with a live cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import yaml

from dure.files.builtin import instances
from dure.files.dump import dump_yaml
from dure.files.params import IMAGE, KUBE_NAME, NODE_IMAGE, OBJECT_NAME, PLANE_URL, URL
from dure.manifest.render import PARTS, Setting, render
from dure.model.errors import InvalidInput
from dure.model.fleet import ClusterSpec, Fleet
from dure.model.workload import Workload

Json = dict[str, Any]
_OFFICE_START = 9


@click.group()
def command() -> None:
    """Print manifests for a cluster; nothing is changed.

    \b
    Example:
      dure render all --fleet fleet.yaml --cluster cloud-kr | kubectl apply --server-side -f -
      dure render all --fleet fleet.yaml --out manifests/ --plane https://dure.example
      dure render all --fleet fleet.yaml --cluster cloud-kr --format helm --out chart/
      dure render agent --cluster seoul --plane https://dure.example | kubectl apply -f -
    """


@command.command()
@click.option("--cluster", type=KUBE_NAME, required=True, help="The cluster's name in the fleet file.")
@click.option("--plane", type=PLANE_URL, required=True, help="Address of the plane as the cluster sees it.")
@click.option("--image", type=IMAGE, default="dure:latest", show_default=True, help="Image that holds Dure.")
@click.option("--ca-secret", type=OBJECT_NAME, help="Secret with the authority (ca.crt) to believe the plane by.")
def agent(cluster: str, plane: str, image: str, ca_secret: str | None) -> None:
    """Everything an agent needs: custom resources, an account with exactly its rights, the agent itself.

    \b
    Example:
      dure render agent --cluster seoul --plane https://dure.example | kubectl apply -f -
    """
    from dure.adapters.kube.rbac import manifests

    made = manifests(cluster, plane, image, ca_secret or "")
    click.echo(yaml.safe_dump_all(made, sort_keys=False), nl=False)


@command.command()
@click.option("--order/--no-order", default=True, show_default=True, help="May serve long jobs of a backlog first.")
@click.option("--dispatch", is_flag=True, help="May name worker clusters (MultiKueue) for Workloads.")
def gateway(order: bool, dispatch: bool) -> None:
    """The account of a gateway (dure-system/dure-gateway) with exactly its rights.

    \b
    Example:
      dure render gateway | kubectl apply -f -
      dure render gateway --dispatch | kubectl apply -f -
    """
    from dure.adapters.kueue.rbac import manifests

    click.echo(yaml.safe_dump_all(manifests(order=order, dispatch=dispatch), sort_keys=False), nl=False)


def _options(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("--fleet", "fleet_path", type=click.Path(path_type=Path), help="Fleet; else the demo."),
            click.option("-f", "--file", "files", multiple=True, type=click.Path(path_type=Path), help="Workloads."),
            click.option("--cluster", help="Cluster of the fleet; all of them with --out."),
            click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Folder to write into."),
            click.option("--format", "form", type=click.Choice(["yaml", "helm"]), default="yaml", show_default=True,
                         help="helm: braces are escaped, so that the files can lie in a chart's templates."),
            click.option("--scaler", type=click.Choice(["keda", "hpa"]), default="keda", show_default=True),
            click.option("--ami", type=NODE_IMAGE, default="al2023@v20260101", show_default=True,
                         help="Pinned image of new nodes."),
            click.option("--discovery", default="", help="Value of the tag karpenter.sh/discovery."),
            click.option("--release", default="prometheus", show_default=True, help="Label the operator selects."),
            click.option("--prometheus", type=URL, default="http://prometheus-operated.monitoring.svc:9090",
                         show_default=True),
            click.option("--plane", type=PLANE_URL, help="Address of the plane: adds the agent to `all`."),
            click.option("--image", type=IMAGE, default="dure:latest", show_default=True, help="Image of the agent."),
            click.option("--diff", is_flag=True, help="Compare with a live cluster instead."),
            click.option("--kubeconfig", type=click.Path(path_type=Path),
                         help="For --diff; else what kubectl would take."),
            click.option("--context", default="", help="Context of the kubeconfig."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def _part(name: str, parts: tuple[str, ...], tells: str) -> None:
    @command.command(
        name, help=f"{tells}\n\n\b\nExample:\n  dure render {name} --fleet fleet.yaml --cluster cloud-kr"
    )
    @_options
    @click.pass_context
    def part(ctx: click.Context, /, **options: Any) -> None:
        _render(ctx, parts, **options)


def _render(
    ctx: click.Context,
    parts: tuple[str, ...],
    *,
    fleet_path: Path | None,
    files: tuple[Path, ...],
    cluster: str | None,
    out: Path | None,
    form: str,
    diff: bool,
    kubeconfig: Path | None,
    context: str,
    plane: str | None,
    image: str,
    **rest: str,
) -> None:
    if diff and out is not None:
        raise click.UsageError("--diff compares with a live cluster and --out writes files: choose one.")
    if (kubeconfig or context) and not diff:
        raise click.UsageError("--kubeconfig and --context go with --diff.")
    fleet, workloads, classes = _read(fleet_path, files)
    chosen = _clusters(fleet, cluster, one=out is None)
    found = {
        spec.info.name: render(
            Setting(
                spec, classes, instances(), fleet.tenants, workloads,
                office_start_utc_h=_office_start(spec.info.timezone), **rest,
            ),
            parts,
        )
        for spec in chosen
    }  # fmt: skip
    if plane and parts == PARTS:
        from dure.adapters.kube.rbac import manifests

        for name, files_of in found.items():
            files_of["agent"] = manifests(name, plane, image)
    write = _helm if form == "helm" else dump_yaml
    if out is not None:
        for name, files_of in found.items():
            folder = out / name if len(found) > 1 else out
            if form == "helm":
                _write_chart(folder, name, files_of)
            else:
                _write_kustomization(folder, files_of)
            click.echo(f"wrote {', '.join(f'{part}.yaml' for part in files_of)} to {folder}", err=True)
        return
    [objects] = [[each for part in files_of.values() for each in part] for files_of in found.values()]
    if not objects:
        click.echo(_nothing(parts, workloads), err=True)
    if diff:
        _diff(ctx, objects, kubeconfig, context)
        return
    click.echo(write(objects), nl=False)


def _nothing(parts: tuple[str, ...], workloads: tuple[Workload, ...]) -> str:
    """Why there is nothing to print."""
    if parts != ("serving",):
        return f"the cluster needs no {' or '.join(parts)}: nothing in the fleet file asks for it"
    if not workloads:
        return "no workloads are given: name their files with -f"
    return "none of the workloads is a serving with a template whose class this cluster has"


def _read(path: Path | None, files: tuple[Path, ...]) -> tuple[Fleet, tuple[Workload, ...], Any]:
    from dure.cli.fleet_file import fleet_and_catalogue
    from dure.files import read_files

    fleet, catalogue = fleet_and_catalogue(path)
    found = list(read_files(files, fleet=fleet).workloads) if files else []
    if path is not None:
        found += read_files([path]).workloads
    return fleet, tuple(sorted(found, key=lambda workload: workload.name)), catalogue.classes


def _clusters(fleet: Fleet, name: str | None, *, one: bool) -> list[ClusterSpec]:
    names = ", ".join(each.info.name for each in fleet.clusters)
    if name is not None:
        spec = fleet.cluster(name)
        if spec is None:
            raise InvalidInput(f"the fleet has no cluster '{name}'", remedy=f"Clusters: {names}")
        return [spec]
    if one and len(fleet.clusters) != 1:
        raise InvalidInput(
            "the fleet has several clusters",
            remedy=f"Choose one with --cluster ({names}), or write all with --out DIR.",
        )
    return list(fleet.clusters)


def _office_start(timezone: str) -> int:
    """09:00 there in hours of UTC, in winter; in summer the window is an hour earlier."""
    offset = datetime(2026, 1, 15, tzinfo=ZoneInfo(timezone)).utcoffset()
    return _OFFICE_START - round((offset.total_seconds() if offset else 0.0) / 3600)


def _write_kustomization(folder: Path, files: dict[str, list[Json]]) -> None:
    """A folder that `kubectl apply -k` takes as it is, and an overlay can name as its base."""
    _write(folder, {name: dump_yaml(objects) for name, objects in files.items()})
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    _write(folder, {"kustomization": dump_yaml([{**head, "resources": [f"{name}.yaml" for name in files]}])})


def _write_chart(folder: Path, name: str, files: dict[str, list[Json]]) -> None:
    """A chart without values: everything that varies is in the fleet file."""
    from dure import __version__

    head = {"apiVersion": "v2", "name": f"dure-{name}", "version": __version__, "type": "application"}
    _write(folder, {"Chart": dump_yaml([{**head, "description": f"What Dure's fleet file says of {name}"}])})
    _write(folder / "templates", {part: _helm(objects) for part, objects in files.items()})


def _write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def _helm(objects: list[Json]) -> str:
    return re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', dump_yaml(objects))


def _diff(ctx: click.Context, objects: list[Json], kubeconfig: Path | None, context: str) -> None:
    from dure.adapters.kube.compare import Comparer
    from dure.adapters.kube.rest import Api, default_kubeconfig

    with Api.from_kubeconfig(kubeconfig or default_kubeconfig(), context) as api:
        comparer = Comparer(api)
        changes = comparer.changes(objects, lambda each: dump_yaml([each]))
    for change in changes:
        click.echo(change)
    for kind in comparer.unknown:
        click.echo(f"the cluster knows no {kind}: install its definition first", err=True)
    click.echo(f"{len(changes)} of {len(objects)} objects differ", err=True)
    if changes:
        ctx.exit(1)


_part("all", PARTS, "Node pools, monitoring, tenants and autoscaled servings of a cluster.")
_part("nodes", ("nodes",), "Karpenter NodePools and their node class.")
_part("monitoring", ("monitoring",), "DCGM exporter, monitors, alerts, dashboards.")
_part("tenant", ("tenant",), "Namespaces of tenants with quota, rights, network and queue.")
_part("serving", ("serving",), "Deployments of serving workloads with budget and autoscaler.")
