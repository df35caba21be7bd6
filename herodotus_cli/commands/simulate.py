"""`kubectl herodotus simulate`: what a trace would have led to with other configurations.

Owns: its options. Does not own: the simulation (`herodotus_local`), the screen.
"""

from __future__ import annotations

import click

from herodotus_cli import option_values, options
from herodotus_cli.environment import environment_of
from herodotus_cli.parameter_types import WholeNumber

MAX_SEEDS = 100
MAX_PROCESSES = 1024


@options.command(short_help="Replay hours of arrivals with other scheduler configurations.")
@click.argument("traces", metavar="TRACE…", nargs=-1, required=True, type=click.Path())
@click.option(
    "--config",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="KubeSchedulerConfiguration; repeat it to compare several [the default profile].",
)
@click.option(
    "--kubernetes-version",
    "versions",
    multiple=True,
    metavar="VERSION",
    help="Rules of this kube-scheduler, such as v1.34.2; repeat it to compare several [each configuration's].",
)
@click.option("--remove-nodes", metavar="PATTERN", default="", help="Without nodes of these names, such as 'gpu-*'.")
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="First seed of the choice between equally good nodes [0].",
)
@click.option(
    "--prices",
    metavar="FILE",
    default="",
    help="Prices of nodes: CSV with the columns name or LABEL, and per_hour.",
)
@click.option("--seeds", type=WholeNumber(1, MAX_SEEDS), default=1, metavar="N", help="Runs of each variant [1].")
@click.option(
    "--processes",
    type=WholeNumber(1, MAX_PROCESSES),
    metavar="N",
    help="Runs at once, each in a process [as many as processors].",
)
@click.option(
    "--pod",
    metavar="NAMESPACE/NAME",
    default="",
    help="Why two variants decide differently about this pod.",
)
@options.output_options
@click.pass_context
def simulate(ctx: click.Context, /, traces: tuple[str, ...], **_given: object) -> None:
    """Replay a trace with one or more configurations, on virtual time, and compare their figures.

    Pods arrive, wait in the scheduling queue with its backoff, are placed, evict others and end, as long after they
    were bound as in the trace. Every configuration is tried by the rules of every version. No cluster is needed; the
    extra `local` is.

    `python -m scheduler observe --trace` records a trace, of which several consecutive files may be given, and
    `import-trace` makes one from records, states of a cluster, and published traces.

    \b
    kubectl herodotus simulate day.trace --config stock.yaml --config packed.yaml
    kubectl herodotus simulate day.trace --remove-nodes 'gpu-*' --seeds 10
    kubectl herodotus simulate a.trace --config a.yaml --config b.yaml --pod web-1
    """
    from herodotus_cli.render import simulation as screen
    from herodotus_cli.transport.local import compare_simulated_pod, simulate_trace

    given, environment = ctx.params, environment_of(ctx)
    files = given["files"] or option_values.group_words(ctx, "scheduler_config")
    versions = given["versions"] or option_values.group_words(ctx, "kubernetes_version")
    seeds = range(given["seed"], given["seed"] + given["seeds"])
    if given["pod"]:
        pod = given["pod"] if "/" in given["pod"] else f"default/{given['pod']}"
        answer = compare_simulated_pod(traces, files, versions, given["seed"], given["remove_nodes"], pod)
        title = f"simulate {', '.join(traces)}"
        output = option_values.output_options(ctx)
        environment.print_answer(answer, output, lambda view: screen.build_pod_screen(title, answer, view))
        return
    answer = simulate_trace(
        traces, files, versions, seeds, given["remove_nodes"], given["prices"], given["processes"] or 0
    )
    environment.print_answer(answer, option_values.output_options(ctx), lambda view: screen.build_screen(answer, view))
