"""`kubectl herodotus podgroup NAME`: how the pods of a PodGroup were placed together, or which of them block it.

Owns: its options and its request. Does not own: the screen.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from herodotus_cli import completion_values, not_found, object_names, option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import SCREEN_FORMATS, Environment, environment_of
from herodotus_cli.errors import NotEvaluatedError, ServerError
from herodotus_cli.option_values import OutputOptions
from herodotus_cli.sorting import SortKey, sort_option, sort_rows
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_answers.pod_group import OtherMember, PodGroupPlacement
    from herodotus_answers.undecided_group import UndecidedPodGroup
    from herodotus_cli.live_pods import LiveFacts
    from herodotus_cli.render.screen_elements import Block, ViewOptions

SORT_KEYS = {
    "name": SortKey(("pod",)),
    "position": SortKey(("position",)),
    "status": SortKey(("state",)),
    "node": SortKey(("node",)),
    "attempt": SortKey(("attempt",), largest_first=True),
}
_PLACED = ("Scheduled", "Fits")  # states of groups


@options.command(short_help="Show how a group's pods were placed together, or which blocks it.")
@click.argument("podgroup", metavar="NAME", shell_complete=completion_values.pod_groups)
@options.namespace_option
@sort_option(SORT_KEYS, "the order in which they were decided", "The pods: ")
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def podgroup(ctx: click.Context, /, podgroup: str, **_given: object) -> None:
    """Show how the pods of a PodGroup were placed together, or which of them block the group.

    Shows the group's last scheduling cycle: which pods fit, which pod found no node and why, which nodes were full by
    then, and what would have been enough. Pods with equal reasons are one line; -o wide lists every pod.

    \b
    kubectl herodotus podgroup train -n ml
    kubectl herodotus podgroup train -o wide
    """
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    namespace = environment.resolve_namespace(option_values.namespace(ctx), connection)
    name, output = object_names.parse_pod_group(podgroup), option_values.output_options(ctx)
    run(name, namespace, ctx.params["sort_key"], connection, output, environment)


def run(
    name: str,
    namespace: str,
    sort_key: SortKey | None,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    """Fetch how a group was placed, and print it. With --watch, repeat it when decisions change."""
    once = partial(_once, name, namespace, sort_key, connection, output)
    environment.run_or_watch(once, connection, output, namespace)


def _once(
    name: str,
    namespace: str,
    sort_key: SortKey | None,
    connection: ConnectionSettings,
    output: OutputOptions,
    environment: Environment,
) -> None:
    path = api_paths.pod_group_placement(namespace, name)
    try:
        answer = environment.fetch(connection, path, output, "pod_group")
    except ServerError as e:
        undecided = _answer_undecided(name, namespace, connection, environment, e)
        if undecided is None:
            raise e.with_hints(not_found.pod_group_hints(e)) from None
        undecided = sort_rows(undecided, "pods", sort_key)
        environment.print_answer(undecided, output, lambda view: _build_undecided_screen(undecided, view))
        return
    answer = sort_rows(answer, "pods", sort_key)
    from herodotus_cli.render import pod_group as screen

    if connection.reaches_cluster and answer["state"] not in _PLACED and "otherMembers" not in answer:
        answer = answer | {"otherMembers": _list_other_members(answer, connection, environment)}
    facts = _read_live_facts(answer, connection, environment) if output.format in SCREEN_FORMATS else None

    def build(view: ViewOptions) -> list[Block]:
        held = facts.build(is_short=not (view.piped or view.wide)) if facts else ()
        return screen.build_screen(answer, view, held)

    environment.print_answer(answer, output, build)


def _read_live_facts(
    answer: PodGroupPlacement, connection: ConnectionSettings, environment: Environment
) -> LiveFacts | None:
    """Return which pods hold what the group lacks on the closest node; None if the cluster cannot be read."""
    if not connection.reaches_cluster or answer["shortage"] is None:
        return None
    from herodotus_cli.live_pods import read_live_facts  # here and below: most groups are placed
    from herodotus_cli.transport.kubectl import KubectlTransport

    return read_live_facts(dict(answer), KubectlTransport(connection, environment.environ))


def _list_other_members(
    answer: PodGroupPlacement, connection: ConnectionSettings, environment: Environment
) -> list[OtherMember]:
    """Return the members of the group that have no node and no record; [] if the user may not list pods."""
    from herodotus_answers.undecided_group import list_other_members  # here and below: most groups are placed
    from herodotus_cli import batch_queues
    from herodotus_cli.transport.kubectl import KubectlTransport

    meta, get = answer["metadata"], KubectlTransport(connection, environment.environ).get_from_api_server
    found = batch_queues.read_group(meta["namespace"], meta["name"], get)
    return list_other_members(found.pods, {pod["uid"] for pod in answer["pods"]}) if found else []


def _answer_undecided(
    name: str, namespace: str, connection: ConnectionSettings, environment: Environment, error: ServerError
) -> UndecidedPodGroup | None:
    """Return the document about an existing group that has no decision or evaluation, or None if it cannot be built.

    `error` is the error of the request for the group's placement. Only groups in the kubeconfig's cluster can be read.
    """
    is_refused = isinstance(error, NotEvaluatedError) and error.reason == "Forbidden"
    if not connection.reaches_cluster or not (error.reason == "NotFound" or is_refused):
        return None
    from herodotus_answers.undecided_group import build_undecided_group  # here and below: most groups have decisions
    from herodotus_cli import batch_queues
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, environment.environ)
    found = batch_queues.read_group(namespace, name, transport.get_from_api_server)
    if found is None:
        return None
    notes = [*([f"not evaluated: {error.words}"] if is_refused else []), *found.notes]
    return build_undecided_group(namespace, name, found.queue, found.pods, notes)


def _build_undecided_screen(answer: UndecidedPodGroup, view: ViewOptions) -> list[Block]:
    from herodotus_cli.render import pod_group as screen

    return screen.build_undecided_screen(answer, view)
