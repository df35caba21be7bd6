"""`kubectl herodotus version`: the versions of the plugin and of the decisions service.

Owns: its output. Does not own: the sources of the versions.
"""

from __future__ import annotations

import re

import click

from herodotus_cli import option_values, options
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, Json, environment_of
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths
from herodotus_record.escaping import escape
from herodotus_record.version import __version__


@options.command(short_help="Print the versions of the plugin and the decisions service.")
@click.option("--client", is_flag=True, help="Only the plugin's version, without a request.")
@click.option("-o", "--output", "format_", type=click.Choice(["json", "yaml"]), help="As a document.")
@options.ignored_namespace_option
@options.connection_options
@click.pass_context
def version(ctx: click.Context, /, client: bool, format_: str | None, **_given: object) -> None:
    """Print the versions of the plugin and of the decisions service."""
    environment = environment_of(ctx)
    run(
        client,
        option_values.connection_settings(ctx, environment.environ),
        OutputOptions(format_ or "", headers=True, color="never"),
        environment,
    )


def run(client: bool, connection: ConnectionSettings, output: OutputOptions, environment: Environment) -> None:
    """Print the plugin's version, then that of the decisions service unless `client` is set.

    As text the plugin's is printed first, because the request for the other one may fail; as JSON or YAML both are
    printed at the end.
    """
    versions: Json = {"clientVersion": __version__}
    if not output.format:
        environment.out.write(f"Client Version: {__version__}\n")
        environment.out.flush()
    if not client:
        versions["serverVersion"] = environment.fetch(connection, api_paths.service_version(), output).get(
            "version", "unknown"
        )
        if not output.format:
            environment.out.write(f"Server Version: {escape(str(versions['serverVersion']))}\n")
            environment.out.flush()
            if skew := _version_skew_warning(str(versions["serverVersion"])):
                print_to_stderr(skew)
    if output.format:
        from herodotus_cli.render import documents

        environment.out.write(documents.serialize(versions, output.format))


def _version_skew_warning(server: str) -> str:
    """Return a warning if the plugin's and the server's version differ by more than one minor version, else ""."""
    ours, theirs = (re.match(r"(\d+)\.(\d+)", version) for version in (__version__, server))
    if not ours or not theirs:
        return ""
    (major, minor), (their_major, their_minor) = (tuple(map(int, m.groups())) for m in (ours, theirs))
    if major == their_major and abs(minor - their_minor) <= 1:
        return ""
    apart = f"client ({major}.{minor}) and server ({their_major}.{their_minor})"
    return f"WARNING: version difference between {apart} exceeds the supported minor version skew of +/-1"
