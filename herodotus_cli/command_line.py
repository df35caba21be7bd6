"""The command line, and the one place where failures become an exit code.

Owns: the group of commands, exit codes, what is printed when something goes wrong. Does not own: any command.

Exit codes: 0 answered; 1 an error (not found, forbidden, unreachable); 2 wrong usage; 130 interrupted.

Invariant: the user never sees a traceback, unless HERODOTUS_DEBUG=1 asks for it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import StringIO

import click

from herodotus_cli import options
from herodotus_cli.commands import COMMANDS, command
from herodotus_cli.context import Environment, Given, surroundings
from herodotus_cli.errors import INTERRUPTED, CliError, print_to_stderr
from herodotus_cli.transport.begun import Begun

PROG = "kubectl herodotus"
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class InOrder(click.Group):
    """Lists its commands in the order of `COMMANDS`, not of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name; None for another word."""
        return command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; for a word that is none, the ones like it are named."""
        word = args[0]
        if word in COMMANDS or word.startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches  # here, because only this failure needs it

        meant = get_close_matches(word, COMMANDS, n=2)
        hint = f" Did you mean {' or '.join(meant)}?" if meant else ""
        raise click.UsageError(f'unknown command "{word}" for "{PROG}".{hint}', ctx)


@click.group(cls=InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@options.namespace_option
@options.connection_options
def cli(**_before: object) -> None:
    """Explains scheduling: why a pod is on its node, why it is Pending, how a node fares.

    Asks the decisions service that records every decision of the Herodotus scheduler: through the API server with your
    kubeconfig, or directly with --endpoint.
    """


def run_process(arguments: Sequence[str], begun: Begun) -> int:
    """The exit code of this process' command line."""
    if sys.stdout is None:  # `>&-`
        return _fail("error: cannot write: standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without ✓ shows ?
    return run(arguments, surroundings(begun))


def run(arguments: Sequence[str], around: Environment) -> int:
    """The exit code of a command line, after everything was printed."""
    debug = around.environ.get("HERODOTUS_DEBUG") == "1"
    try:
        cli.main(list(arguments), prog_name=PROG, standalone_mode=False, obj=Given(around))
        around.out.flush()
    except click.ClickException as e:
        shown = StringIO()
        e.show(shown)
        print_to_stderr(*shown.getvalue().rstrip("\n").split("\n"))
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click makes the one of the other, inside a command
        # whoever read the answer has seen enough; what Python flushes at exit must not complain either
        _write_no_more()
        return 0
    except CliError as e:
        if debug and e.__cause__:
            raise
        return _fail(*e.lines)
    except Exception as e:
        if debug:
            raise
        if isinstance(e, OSError) and e.errno in _UNWRITABLE and not e.filename:
            _write_no_more()
            return _fail(f"error: cannot write: {e.strerror}")
        return _fail(f"error: {type(e).__name__}: {' '.join(str(e).split())}", "  the whole story: HERODOTUS_DEBUG=1")
    return 0


def _write_no_more() -> None:
    """Leaves what is not written yet to nobody: Python writes it at exit, and would complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(*lines: str) -> int:
    print_to_stderr(*lines)
    return 1
