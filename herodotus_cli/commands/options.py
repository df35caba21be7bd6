"""`kubectl herodotus options`: the options that all commands have, as `kubectl options`.

Owns: this help text. Does not own: the options (`herodotus_cli.options`).
"""

from __future__ import annotations

import click

from herodotus_cli.environment import environment_of
from herodotus_cli.options import PagedHelp


class OptionsCommand(PagedHelp):
    """The command whose help has the options of the group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options to the formatter."""
        group = ctx.find_root()
        given = group.command.get_params(group)
        with formatter.section("Options of the commands that ask a cluster"):
            formatter.write_dl([record for option in given if (record := option.get_help_record(group)) is not None])


@click.command(cls=OptionsCommand, short_help="List the options of the commands that ask a cluster.")
@click.pass_context
def options(ctx: click.Context) -> None:
    """List the options that say which cluster a command asks, and how.

    The answers come from the decisions service, which records every scheduling decision. It is reached through the API
    server with your kubeconfig, or directly with --endpoint. Where there is none, the cluster is read with your rights
    and evaluated here.

    Exit codes: 0 answered; 1 not found, forbidden, not reachable, or another error; 2 wrong usage; 130 interrupted.
    """
    environment_of(ctx).print_text(f"{ctx.get_help()}\n")
