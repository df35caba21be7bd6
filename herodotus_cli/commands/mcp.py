"""`kubectl herodotus mcp`: serve the plugin's answers to an AI assistant.

Owns: its options. Does not own: the tools and the protocol (`assistant`).
"""

from __future__ import annotations

import click

from herodotus_cli import option_values, options, parameter_types
from herodotus_cli.environment import environment_of
from herodotus_cli.errors import CliError
from herodotus_record.installation import describe_extra_installation

_DEFAULT_KIB = 64


@options.command(short_help="Serve answers to an AI assistant (MCP, on stdin and stdout).")
@click.option(
    "--max-answer",
    type=parameter_types.WholeNumber(4, 4096),
    default=_DEFAULT_KIB,
    metavar="KIB",
    help=f"Shorten longer answers, and say so [{_DEFAULT_KIB}].",
)
@options.connection_options
@click.pass_context
def mcp(ctx: click.Context, /, max_answer: int, **_given: object) -> None:
    """Serve answers to an AI assistant over the Model Context Protocol (MCP), on stdin and stdout.

    The assistant starts this command. Its tools only read: they run other commands of this plugin with your kubeconfig
    and rights, and return their documents. It needs the extra `mcp`, and says how to install
    that where it is missing.

    \b
    kubectl herodotus mcp
    kubectl herodotus mcp --context staging --local
    """
    environment = environment_of(ctx)
    connection = option_values.connection_settings(ctx, environment.environ)
    try:
        import anyio

        from herodotus_cli.assistant import server
    except ModuleNotFoundError as missing:
        if missing.name and missing.name.startswith("herodotus"):
            raise
        raise CliError(
            f"error: there is no package {(missing.name or '').partition('.')[0]}, which the MCP server needs",
            [f"install it: {describe_extra_installation('mcp')}"],
        ) from None
    assistant = server.Assistant(environment, option_values.connection_words(connection), max_answer * 1024)
    anyio.run(server.serve, assistant)
