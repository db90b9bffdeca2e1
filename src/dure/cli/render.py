"""`dure render`: manifests for a cluster, on standard output."""

from __future__ import annotations

import click
import yaml


@click.group()
def command() -> None:
    """Print manifests for a cluster; nothing is changed.

    \b
    Example:
      dure render agent --cluster seoul --plane https://dure.example | kubectl apply -f -
    """


@command.command()
@click.option("--cluster", required=True, help="The cluster's name in the fleet file.")
@click.option("--plane", required=True, help="Address of the plane as the cluster sees it.")
@click.option("--image", default="dure:latest", show_default=True, help="Image that holds Dure.")
def agent(cluster: str, plane: str, image: str) -> None:
    """Everything an agent needs: custom resources, an account with exactly its rights, the agent itself.

    \b
    Example:
      dure render agent --cluster seoul --plane https://dure.example | kubectl apply -f -
    """
    from dure.adapters.kube.rbac import manifests

    click.echo(yaml.safe_dump_all(manifests(cluster, plane, image), sort_keys=False), nl=False)
