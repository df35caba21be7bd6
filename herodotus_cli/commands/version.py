"""`kubectl herodotus version`: of the plugin, and of the decisions service that it reaches.

Owns: its output. Does not own: where the versions come from.
"""

from __future__ import annotations

import re

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, Json, given
from herodotus_cli.errors import print_to_stderr
from herodotus_cli.options import Output
from herodotus_cli.transport import questions
from herodotus_record.escaping import escape
from herodotus_record.version import __version__


@click.command(short_help="The plugin's version and the decisions service's.")
@click.option("--client", is_flag=True, help="The plugin's only; asks nobody.")
@click.option("-o", "--output", "format_", type=click.Choice(["json", "yaml"]), help="As a document.")
@options.ignored_namespace_option
@options.connection_options
@click.pass_context
def version(ctx: click.Context, /, client: bool, format_: str | None, **_given: object) -> None:
    """The plugin's version and the decisions service's."""
    around = given(ctx).around
    run(client, options.connection(ctx, around.environ), Output(format_ or "", headers=True, color="never"), around)


def run(client: bool, connection: Connection, output: Output, around: Environment) -> None:
    """Prints the plugin's version before it asks for the other, which may fail."""
    versions: Json = {"clientVersion": __version__}
    if not output.format:
        around.out.write(f"Client Version: {__version__}\n")
        around.out.flush()
    if not client:
        versions["serverVersion"] = around.ask(connection, questions.version(), output).get("version", "unknown")
        if not output.format:
            around.out.write(f"Server Version: {escape(str(versions['serverVersion']))}\n")
            around.out.flush()
            if skew := _skew(str(versions["serverVersion"])):
                print_to_stderr(skew)
    if output.format:
        from herodotus_cli.render import documents

        around.out.write(documents.text(versions, output.format))


def _skew(server: str) -> str:
    """A warning where client and server are further apart than one minor version; "" where they are not."""
    ours, theirs = (re.match(r"(\d+)\.(\d+)", version) for version in (__version__, server))
    if not ours or not theirs:
        return ""
    (major, minor), (their_major, their_minor) = (tuple(map(int, m.groups())) for m in (ours, theirs))
    if major == their_major and abs(minor - their_minor) <= 1:
        return ""
    apart = f"client ({major}.{minor}) and server ({their_major}.{their_minor})"
    return f"WARNING: version difference between {apart} exceeds the supported minor version skew of +/-1"
