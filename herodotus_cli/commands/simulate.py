"""`kubectl herodotus simulate`: what a trace would have led to with other configurations, and which is best for a goal.

Owns: their options. Does not own: the simulation and the search (`herodotus_local`), the screens.
"""

from __future__ import annotations

import click

from herodotus_cli import option_values, options
from herodotus_cli.environment import environment_of
from herodotus_cli.parameter_types import WholeNumber

MAX_SEEDS = 100
MAX_PROCESSES = 1024
MAX_TRIALS = 10_000
MAX_SAMPLES = 1000
MAX_TIME_S = 7 * 24 * 3600

_TRACES = click.argument("traces", metavar="TRACE…", nargs=-1, required=True, type=click.Path())
_REMOVE_NODES = click.option(
    "--remove-nodes", metavar="PATTERN", default="", help="Without nodes of these names, such as 'gpu-*'."
)
_PRICES = click.option(
    "--prices",
    metavar="FILE",
    default="",
    help="Prices of nodes: CSV with the columns name or LABEL, and per_hour.",
)
_PROCESSES = click.option(
    "--processes",
    type=WholeNumber(1, MAX_PROCESSES),
    metavar="N",
    help="Runs at once, each in a process [as many as processors].",
)


def _find_goal(name: str) -> click.Command | None:
    return GOALS.get(name)


@click.command(
    cls=options.CommandWithGoals,
    find_goal=_find_goal,
    short_help="Replay hours of arrivals with other scheduler configurations.",
)
@_TRACES
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
@_REMOVE_NODES
@click.option(
    "--seed",
    type=int,
    default=0,
    metavar="N",
    help="First seed of the choice between equally good nodes [0].",
)
@_PRICES
@click.option("--seeds", type=WholeNumber(1, MAX_SEEDS), default=1, metavar="N", help="Runs of each variant [1].")
@_PROCESSES
@click.option(
    "--pod",
    metavar="NAMESPACE/NAME",
    default="",
    help="Why two variants decide differently about this pod.",
)
@click.option("--parquet", metavar="FILE", default="", help="Also write the figures to this new Parquet file.")
@options.output_options
@click.pass_context
def simulate(ctx: click.Context, /, traces: tuple[str, ...], **_given: object) -> None:
    """Replay a trace with one or more configurations, on virtual time, and compare their figures.

    Pods arrive, wait in the scheduling queue with its backoff, are placed, evict others and end, as long after they
    were bound as in the trace. Every configuration is tried by the rules of every version. No cluster is needed; the
    extra `local` is.

    `python -m scheduler observe --trace` records a trace, of which several consecutive files may be given, and
    `import-trace` makes one from records, states of a cluster, and published traces.

    Another goal, with its own --help: simulate tune

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
        if given["parquet"]:
            raise click.UsageError("--parquet writes figures of runs: leave out --pod")
        pod = given["pod"] if "/" in given["pod"] else f"default/{given['pod']}"
        answer = compare_simulated_pod(traces, files, versions, given["seed"], given["remove_nodes"], pod)
        title = f"simulate {', '.join(traces)}"
        output = option_values.output_options(ctx)
        environment.print_answer(answer, output, lambda view: screen.build_pod_screen(title, answer, view))
        return
    removed_nodes, prices, parquet = given["remove_nodes"], given["prices"], given["parquet"]
    answer = simulate_trace(traces, files, versions, seeds, removed_nodes, prices, given["processes"], parquet)
    environment.print_answer(answer, option_values.output_options(ctx), lambda view: screen.build_screen(answer, view))


@options.command(name="tune")
@_TRACES
@click.option(
    "--minimize", metavar="FIGURE", default="", help="Figure to lower, such as nodesInUse or cpu.fragmentation."
)
@click.option("--maximize", metavar="FIGURE", default="", help="Figure to raise, such as removableNodes.")
@click.option(
    "--subject-to",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Limit of a figure, such as 'waitedP99S<=60'; repeatable [no more pods never placed than now].",
)
@click.option(
    "--config", "file", type=click.Path(), metavar="FILE", help="Present configuration [the default profile]."
)
@click.option(
    "--kubernetes-version", "version", metavar="VERSION", help="Rules of this kube-scheduler, such as v1.34.2."
)
@_REMOVE_NODES
@_PRICES
@click.option("--trials", type=WholeNumber(2, MAX_TRIALS), default=64, metavar="N", help="Configurations to try [64].")
@click.option(
    "--time-limit",
    type=WholeNumber(1, MAX_TIME_S),
    default=600,
    metavar="S",
    help="Seconds after which the search tries no more [600].",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the search and first seed of its runs [0].")
@click.option("--seeds", type=WholeNumber(1, MAX_SEEDS), default=2, metavar="N", help="Runs of each configuration [2].")
@click.option(
    "--samples",
    type=WholeNumber(3, MAX_SAMPLES),
    default=10,
    metavar="N",
    help="Random samples of the unseen arrivals, for the interval of the gain [10].",
)
@_PROCESSES
@options.output_options
@click.pass_context
def simulate_tune(ctx: click.Context, /, traces: tuple[str, ...], **_given: object) -> None:
    """Search score weights and strategies for an objective, and measure the gain on arrivals that it did not see.

    The search replays the first half of the trace, by arrivals. What it finds is compared with the present
    configuration on the second half, and on random samples of its arrivals, which give the interval. A configuration
    is printed if the whole interval is a gain. Figures have the names of `simulate -o json`. The extras `local` and
    `tune` are needed.

    \b
    kubectl herodotus simulate tune day.trace --minimize nodesInUse
    kubectl herodotus simulate tune day.trace --minimize costInUse --prices prices.csv --subject-to 'waitedP99S<=60'
    kubectl herodotus simulate tune day.trace --minimize cpu.fragmentation -o jsonpath='{.tunedConfiguration}'
    """
    from herodotus_cli.render import tuning as screen
    from herodotus_cli.transport.local import tune_trace

    given, environment = ctx.params, environment_of(ctx)
    if bool(given["minimize"]) == bool(given["maximize"]):
        raise click.UsageError("state one objective: --minimize FIGURE or --maximize FIGURE")
    file = given["file"] or next(iter(option_values.group_words(ctx, "scheduler_config")), "")
    version = given["version"] or next(iter(option_values.group_words(ctx, "kubernetes_version")), "")
    objective = given["minimize"] or given["maximize"], bool(given["maximize"])
    search = {name: given[name] for name in ("trials", "seed", "seeds", "samples")}
    search["time_limit_s"] = given["time_limit"]
    answer = tune_trace(
        traces,
        file,
        version,
        objective,
        given["limits"],
        given["remove_nodes"],
        given["prices"],
        search,
        given["processes"],
    )
    environment.print_answer(answer, option_values.output_options(ctx), lambda view: screen.build_screen(answer, view))


GOALS: dict[str, click.Command] = {"tune": simulate_tune}
