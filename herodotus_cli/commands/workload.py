"""`kubectl herodotus workload deploy/NAME`: where a workload's pods went, and what decided it.

Owns: its options and the question they make up. Does not own: the screen.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import NamedTuple

import click

from herodotus_cli import live, missing, options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, Json, given
from herodotus_cli.errors import ServerError
from herodotus_cli.options import Output
from herodotus_cli.transport import questions

_ZONED = 200  # nodes whose zones are asked for: their names are in the question, some 30 kB of each in the answer


class WorkloadQuestion(NamedTuple):
    """What is asked. `namespace` empty: the context's."""

    kind: str
    name: str
    namespace: str
    since_s: float
    labels: str


@click.command(short_help="Where a workload's pods went, and what decided it.")
@click.argument("workload", metavar="KIND/NAME", shell_complete=live.workloads)
@options.namespace_option
@options.selector_option
@options.SINCE
@options.watch_option
@options.output_options
@options.connection_options
@click.pass_context
def workload(ctx: click.Context, /, workload: str, since: float, **_given: object) -> None:
    """Where a workload's pods went, and what decided it.

    KIND/NAME is deploy/NAME, sts/NAME, rs/NAME, ds/NAME, job/NAME or cj/NAME. Shows how its pods spread over nodes
    and zones (as nodes are labelled now), which plugin decided how often, and pods that found no node. The record knows
    where pods went, not which still run.

    \b
    kubectl herodotus workload deploy/checkout -n shop
    kubectl herodotus workload sts/payments --since 7d
    """
    around = given(ctx).around
    question = WorkloadQuestion(*options.workload_of(workload), options.namespace(ctx), since, ctx.params["selector"])
    run(question, options.connection(ctx, around.environ), options.output(ctx), around)


def run(question: WorkloadQuestion, connection: Connection, output: Output, around: Environment) -> None:
    """Asks and prints."""
    namespace = around.namespace(question.namespace, connection)
    once = partial(_once, question, namespace, connection, output, around)
    around.answer(once, connection, output, namespace, questions.Selected(labels=question.labels))


def _once(
    question: WorkloadQuestion, namespace: str, connection: Connection, output: Output, around: Environment
) -> None:
    path = questions.workload(namespace, question.kind, question.name, since_s=question.since_s, labels=question.labels)
    try:
        answer = around.ask(connection, path, output, "workload")
    except ServerError as e:
        raise e.with_hints(missing.workload_hints(e)) from None
    if output.format != "name":
        answer |= _zones(answer, connection, around)
    from herodotus_cli.render import workload as workload_screen

    around.show(answer, output, lambda view: workload_screen.screen(answer, view))


def _zones(answer: Json, connection: Connection, around: Environment) -> Json:
    """How many pods went to nodes of each zone, as the nodes are labelled now; nothing where no zone is known.

    Only kubectl can ask for nodes.
    """
    pods = {node["node"]: node["pods"] for node in answer.get("nodes", ())[:_ZONED]}
    if connection.endpoint or not pods:
        return {}
    from herodotus_cli.transport.kubectl import KubectlTransport

    with KubectlTransport(connection, around.environ).node_zones(list(pods)) as live:
        zone_of = live.zones()
    counts = Counter[str]()
    for node, n in pods.items():
        counts[zone_of.get(node, "")] += n
    found = [{"zone": zone, "pods": n} for zone, n in sorted(counts.items(), key=lambda c: (not c[0], -c[1], c[0]))]
    return {"zones": found} if zone_of else {}
