"""`kubectl herodotus options`: the options that many commands share, as `kubectl options`.

Owns: this help text. Does not own: the options (`herodotus_cli.options`).
"""

from __future__ import annotations

import click

from herodotus_cli.environment import environment_of
from herodotus_cli.options import PagedHelp, connection_options, output_options


@click.command
@output_options
def _printing() -> None:
    """Hold the options of commands that print an answer."""


@click.command
@connection_options
def _asking() -> None:
    """Hold the options of commands that ask a cluster."""


_SECTIONS = {
    "Options of the commands that ask a cluster": _asking,
    "Options of the commands that print an answer": _printing,
}


class OptionsCommand(PagedHelp):
    """The command whose help has the options that commands share."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the formatter."""
        for title, command in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([r for option in command.params if (r := option.get_help_record(ctx)) is not None])


@click.command(cls=OptionsCommand, short_help="List the options that the commands share.")
@click.pass_context
def options(ctx: click.Context) -> None:
    """List the options that say which cluster a command asks, and how it prints the answer.

    The answers come from the decisions service, which records every scheduling decision. It is reached through the API
    server with your kubeconfig, or directly with --endpoint. Where there is none, the cluster is read with your rights
    and evaluated here.

    Exit codes: 0 answered; 1 not found, forbidden, not reachable, or another error; 2 wrong usage; 130 interrupted.
    """
    environment_of(ctx).print_text(f"{ctx.get_help()}\n")
