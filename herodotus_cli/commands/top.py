"""`kubectl herodotus top`: a full-screen view of nodes, waiting pods and placements.

Owns: its options, and what it needs of the terminal. Does not own: the program (`top`).
"""

from __future__ import annotations

import sys

import click

from herodotus_cli import option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import CliError
from herodotus_record.installation import describe_extra_installation

_ONCE = "to print the same once: kubectl herodotus pending -A; kubectl herodotus node NAME"


@options.command(short_help="Show nodes, waiting pods and placements on a full screen.")
@options.namespaces_options
@click.option(
    "--interval",
    type=parameter_types.PositiveDuration(),
    default="10s",
    metavar="DURATION",
    help="Time between two updates [10s].",
)
@options.connection_options
@click.pass_context
def top(ctx: click.Context, /, interval: float, **_given: object) -> None:
    """Show nodes, waiting pods and placements on a full screen, updated in place.

    Nodes are bars of the pods' requests against what is allocatable, with taints and cordons. From a node, Enter leads
    to its pods, and from a pod to its decision. `?` lists the keys, `q` ends it. Simulations change nothing. Nodes and
    pods are read with your kubeconfig and rights, of every namespace unless -n is given. It needs the extra `top`,
    and says how to install that where it is missing.

    \b
    kubectl herodotus top
    kubectl herodotus top -n shop --interval 30s
    kubectl herodotus top --local
    """
    environment = environment_of(ctx)
    option_values.all_namespaces(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    require_terminal(environment)
    if not connection.reaches_cluster:
        option = "--cluster" if connection.cluster else "--endpoint"
        raise CliError(f"error: top reads nodes and pods from the API server: leave out {option}", [_ONCE])
    ctx.exit(run(option_values.namespace(ctx), interval, connection, environment))


def require_terminal(environment: Environment) -> None:
    """Raise CliError unless a program can use the whole screen of the terminal."""
    streams = {"stdin": sys.stdin, "stdout": environment.out, "stderr": sys.stderr}
    others = [name for name, stream in streams.items() if not (stream and stream.isatty())]
    if others:
        raise CliError(f"error: top needs a terminal, and {others[0]} is none", [_ONCE])
    if environment.environ.get("TERM", "dumb") in ("", "dumb"):
        raise CliError("error: top needs a terminal that can move its cursor, and TERM is dumb or not set", [_ONCE])


def run(namespace: str, interval_s: float, connection: ConnectionSettings, environment: Environment) -> int:
    """Run the program until the user ends it, and return its exit code.

    Raises CliError if the extra is missing or kubectl cannot run.
    """
    try:
        from herodotus_cli.top.app import TopApp
    except ModuleNotFoundError as missing:
        if missing.name and missing.name.startswith("herodotus"):
            raise
        raise CliError(
            f"error: there is no package {(missing.name or '').partition('.')[0]}, which top needs",
            [f"install it: {describe_extra_installation('top')}"],
        ) from None
    from herodotus_cli.top.command_runner import CommandRunner
    from herodotus_cli.top.reader import NodeReader

    runner = CommandRunner(option_values.connection_words(connection), environment.environ)
    reader = NodeReader(connection, environment.environ)
    try:
        return TopApp(reader, runner, environment, namespace=namespace, interval_s=interval_s).run_on_terminal()
    finally:
        runner.close()
        reader.close()
