"""`kubectl herodotus simulate`: what a trace would have led to with other configurations, and which is best for a goal.

Owns: their options, which have the names and defaults of the question's fields. Does not own: the simulation and the
search (`herodotus_local`), the screens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

import click

from herodotus_answers.simulation_questions import SimulationQuestion, TraceQuestion, TuningQuestion
from herodotus_cli import completion_values, option_values, options
from herodotus_cli.environment import environment_of
from herodotus_cli.parameter_types import WholeNumber

MAX_SEEDS = 100
MAX_PROCESSES = 1024
MAX_TRIALS = 10_000
MAX_SAMPLES = 1000
MAX_TIME_S = 7 * 24 * 3600

_TRACES = click.argument("traces", metavar="TRACE…", nargs=-1, required=True, type=click.Path())
_REMOVE_NODES = click.option(
    "--remove-nodes", "removed_nodes", metavar="PATTERN", help="Without nodes of these names, such as 'gpu-*'."
)
_PRICES = click.option(
    "--prices",
    type=click.Path(),
    metavar="FILE",
    help="Prices of nodes: CSV with the columns name or LABEL, and per_hour.",
)
_PROCESSES = click.option(
    "--processes",
    type=WholeNumber(1, MAX_PROCESSES),
    metavar="N",
    help="Runs at once, each in a process [as many as processors].",
)
_RESUME = click.option(
    "--resume",
    type=click.Path(),
    metavar="FILE",
    help="Keep each run in this file when it ends, and continue with the runs that it has.",
)

Question = TypeVar("Question", bound=TraceQuestion)


def _build_question(kind: type[Question], ctx: click.Context, **others: Any) -> Question:
    """Return the question with the values of a command line whose names are those of its fields, and with others."""
    names = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in ctx.params.items() if name in names and value} | others)


def _answer(ctx: click.Context, question: SimulationQuestion | TuningQuestion, screen: Callable[..., Any]) -> None:
    """Answer a question and print the answer with a screen of `render`."""
    from herodotus_cli.transport.local import answer_trace_question

    answer = answer_trace_question(question)
    environment_of(ctx).print_answer(answer, option_values.output_options(ctx), lambda view: screen(answer, view))


@click.command(
    cls=options.CommandWithGoals,
    short_help="Replay hours of arrivals with other scheduler configurations.",
)
@_TRACES
@click.option(
    "--config",
    "configurations",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="KubeSchedulerConfiguration; repeat it to compare several [the default profile].",
)
@click.option(
    "--kubernetes-version",
    "kubernetes_versions",
    multiple=True,
    metavar="VERSION",
    shell_complete=completion_values.versions,
    help="Rules of this kube-scheduler, such as v1.34.2; repeat it to compare several [each configuration's].",
)
@_REMOVE_NODES
@click.option("--seed", type=int, metavar="N", help="First seed of the choice between equally good nodes [0].")
@_PRICES
@click.option("--seeds", type=WholeNumber(1, MAX_SEEDS), metavar="N", help="Runs of each variant [1].")
@_PROCESSES
@click.option("--pod", metavar="NAMESPACE/NAME", help="Why two variants decide differently about this pod.")
@click.option(
    "--parquet",
    type=click.Path(),
    metavar="FILE",
    help="Also write the figures to this Parquet file: a new one, or with --resume any.",
)
@_RESUME
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

    question = _build_question(
        SimulationQuestion,
        ctx,
        configurations=ctx.params["configurations"] or option_values.group_words(ctx, "scheduler_config"),
        kubernetes_versions=ctx.params["kubernetes_versions"] or option_values.group_words(ctx, "kubernetes_version"),
    )
    if not question.pod:
        _answer(ctx, question, screen.build_screen)
        return
    if question.parquet or question.resume:
        raise click.UsageError("--parquet and --resume write figures of runs: leave out --pod")
    if "/" not in question.pod:
        question = replace(question, pod=f"default/{question.pod}")
    _answer(ctx, question, partial(screen.build_pod_screen, f"simulate {', '.join(traces)}"))


@simulate.add_goal
@options.command(name="tune")
@_TRACES
@click.option("--minimize", metavar="FIGURE", help="Figure to lower, such as nodesInUse or cpu.fragmentation.")
@click.option("--maximize", metavar="FIGURE", help="Figure to raise, such as removableNodes.")
@click.option(
    "--subject-to",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Limit of a figure, such as 'waitedP99S<=60'; repeatable [no more pods never placed than now].",
)
@click.option(
    "--config",
    "configuration",
    type=click.Path(),
    metavar="FILE",
    help="Present configuration [the default profile].",
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    shell_complete=completion_values.versions,
    help="Rules of this kube-scheduler, such as v1.34.2.",
)
@_REMOVE_NODES
@_PRICES
@click.option(
    "--trials",
    type=WholeNumber(2, MAX_TRIALS),
    metavar="N",
    help=f"Configurations to try [{TuningQuestion.trials}].",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=WholeNumber(1, MAX_TIME_S),
    metavar="S",
    help=f"Seconds after which the search tries no more [{TuningQuestion.time_limit_s}].",
)
@click.option("--seed", type=int, metavar="N", help="Seed of the search and first seed of its runs [0].")
@click.option(
    "--seeds",
    type=WholeNumber(1, MAX_SEEDS),
    metavar="N",
    help=f"Runs of each configuration [{TuningQuestion.seeds}].",
)
@click.option(
    "--samples",
    type=WholeNumber(3, MAX_SAMPLES),
    metavar="N",
    help=f"Random samples of the unseen arrivals, for the interval of the gain [{TuningQuestion.samples}].",
)
@_PROCESSES
@_RESUME
@options.output_options
@click.pass_context
def simulate_tune(ctx: click.Context, /, **_given: object) -> None:
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

    lowest, highest = ctx.params["minimize"], ctx.params["maximize"]
    if bool(lowest) == bool(highest):
        raise click.UsageError("state one objective: --minimize FIGURE or --maximize FIGURE")
    group = {name: "".join(option_values.group_words(ctx, name)) for name in ("scheduler_config", "kubernetes_version")}
    question = _build_question(
        TuningQuestion,
        ctx,
        figure=lowest or highest,
        maximize=bool(highest),
        configuration=ctx.params["configuration"] or group["scheduler_config"],
        kubernetes_version=ctx.params["kubernetes_version"] or group["kubernetes_version"],
    )
    _answer(ctx, question, screen.build_screen)
