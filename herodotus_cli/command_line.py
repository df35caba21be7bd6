"""The command line: the group of commands, and the place where every failure becomes a message and an exit code.

Owns: the group of commands, exit codes, messages of unexpected failures. Does not own: any command.

Exit codes: 0 answered; 1 an error (not found, forbidden, unreachable), or with `whatif --exit-code` a pod that does not
fit; 2 wrong usage; 130 interrupted.

Invariant: the user never sees a traceback, except with HERODOTUS_DEBUG=1.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import StringIO

import click

from herodotus_cli import options, transport
from herodotus_cli.commands import ALIASES, COMMANDS, GROUPS, OTHERS, SEE_INSTEAD, load_command
from herodotus_cli.environment import Environment, process_environment
from herodotus_cli.errors import INTERRUPTED, CliError, print_to_stderr

PROG = "kubectl herodotus"
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class OrderedGroup(options.PagedHelp, click.Group):
    """The click group of all commands, listed in the order of `COMMANDS`. Only a called command is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        return load_command(name) if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command's name, the command, and the arguments left for it, as click expects.

        Raises UsageError, which suggests similar names, if the command is unknown.
        """
        word = args[0]
        if word in COMMANDS or word.startswith("-"):
            return super().resolve_command(ctx, args)
        if word in ALIASES:
            return super().resolve_command(ctx, [ALIASES[word], *args[1:]])
        meant = _find_meant(word)
        hint = "".join(f"\n  {PROG} {command}" for command in meant)
        hint = f"\n\nDid you mean this?{hint}" if meant else ""
        raise click.UsageError(f'unknown command "{word}" for "{PROG}"{hint}', ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of commands. The options that all have are described by the command `options`."""
        formatter.write(f"{self.help}\n")
        for title, commands in GROUPS.items():
            formatter.write(f"{title}:\n")
            with formatter.indentation():
                formatter.write_dl([(name, load_command(name).get_short_help_str(100)) for name in commands])
        others = [f"{name} ({words})" if words else name for name, words in OTHERS.items()]
        formatter.write_text(f"Others: {', '.join(others)}")
        formatter.write_text(f"Usage: {PROG} COMMAND [ARGUMENTS] [OPTIONS]; each has --help")


def _find_meant(word: str) -> list[str]:
    """Return the commands that the user may have meant by `word`, which is not a command; [] if none is similar."""
    from difflib import get_close_matches  # here and below, because only this failure needs it

    from herodotus_cli.commands.whatif import whatif

    actions = {name: (f"whatif {name}",) for name in whatif.list_goals()}
    known: dict[str, tuple[str, ...]] = {name: (name,) for name in COMMANDS} | actions | SEE_INSTEAD
    names = [word] if word in known else get_close_matches(word, known, n=2)
    return list(dict.fromkeys(command for name in names for command in known[name]))


@click.group(cls=OrderedGroup, context_settings={"max_content_width": 100})
@options.namespace_option
@options.connection_options
def cli(**_options: object) -> None:
    """Explain why a pod is on its node or waits, and what would change it."""


def run_process(arguments: Sequence[str]) -> int:
    """Run the command line of this process and return its exit code."""
    if sys.stdout is None:  # `>&-`
        return _fail("error: cannot write: standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal without ✓ shows ?
    return run(arguments, process_environment())


def run(arguments: Sequence[str], environment: Environment) -> int:
    """Run a command line in an environment, print its output or errors, and return its exit code."""
    debug = environment.environ.get("HERODOTUS_DEBUG") == "1"
    try:
        code = cli.main(list(arguments), prog_name=PROG, standalone_mode=False, obj=environment)
        environment.out.flush()
        return code if isinstance(code, int) else 0  # of `Context.exit`, else what the command returned: nothing
    except click.ClickException as e:
        shown = StringIO()
        e.show(shown)
        print_to_stderr(*shown.getvalue().rstrip("\n").split("\n"))
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click makes the one of the other, inside a command
        # The reader closed the pipe. Python's flush at exit must not fail on it either.
        _discard_stdout()
        return 0
    except CliError as e:
        if debug and e.__cause__:
            raise
        return _fail(*e.lines)
    except Exception as e:
        if debug:
            raise
        if isinstance(e, OSError) and e.errno in _UNWRITABLE and not e.filename:
            _discard_stdout()
            return _fail(f"error: cannot write: {e.strerror}")
        return _fail(f"error: {type(e).__name__}: {' '.join(str(e).split())}", "  for the traceback: HERODOTUS_DEBUG=1")
    finally:
        transport.close()


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python's flush of buffered output at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(*lines: str) -> int:
    print_to_stderr(*lines)
    return 1
