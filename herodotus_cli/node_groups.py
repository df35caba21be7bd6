"""Questions about node groups: the options that several commands share, the file of shapes, and the request.

Owns: the question. Does not own: the request's form (`cluster_review`), screens (`render.node_groups`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from herodotus_cli import completion_values
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment
from herodotus_cli.errors import CliError

if TYPE_CHECKING:
    from herodotus_answers.node_groups import PodNodeGroups

Json = dict[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])
FORM = "nodeGroups:\n- name: gpu-large\n  zones: [zone-a]\n  allocatable: {cpu: 8, memory: 32Gi, pods: 110}"

_OPTIONS = (
    click.option(
        "--node-groups-file",
        "shapes_file",
        type=click.Path(),
        metavar="FILE",
        default="",
        help="Shapes of node groups that the cluster does not describe, YAML or JSON.",
    ),
    click.option(
        "--label-key",
        "label_keys",
        multiple=True,
        metavar="KEY",
        shell_complete=completion_values.label_keys,
        help="A node label that names the node's group, besides the well-known ones; repeatable.",
    ),
)


def node_group_options(command: Command) -> Command:
    """Add to a command the options that say what the node groups are."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_question(params: dict[str, Any], pods: Sequence[str] = (), **more: Any) -> Json:
    """Return a question about node groups. `params` are the parsed options of the command line.

    `pods` are names NAMESPACE/NAME, and `more` has further fields of the question. Raises CliError if the file of
    shapes cannot be read.
    """
    shapes = read_shapes(params["shapes_file"]) if params["shapes_file"] else []
    return {"pods": list(pods), "labelKeys": list(params["label_keys"]), "shapes": shapes, **more}


def read_shapes(path: str) -> list[Json]:
    """Return the list `nodeGroups` in a file. Raises CliError if the file has another form."""
    from herodotus_cli import manifests  # here, because YAML takes time to import

    documents = manifests.read_documents(path)
    groups = documents[0].get("nodeGroups") if len(documents) == 1 and isinstance(documents[0], dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, dict) and group.get("name") for group in groups):
        raise CliError(f"error: {path}: expected a list nodeGroups whose items have a name", FORM.splitlines())
    return groups


def ask_about_pod(
    question: Json, connection: ConnectionSettings, environment: Environment, *, local: bool
) -> PodNodeGroups:
    """Ask a question about node groups, and return the part of the answer about them, with the answer's notes.

    With `local`, the answer comes from local mode, which has read the cluster already. Raises CliError if there is no
    answer.
    """
    from herodotus_cli import cluster_review
    from herodotus_cli.transport import connect, open_local

    transport = open_local(connection, environment.environ) if local else connect(connection, environment.environ)
    status = cluster_review.ask(transport, {"nodeGroups": question})["status"]
    answer: PodNodeGroups = status["nodeGroups"] | {"notes": status["notes"]}
    return answer
