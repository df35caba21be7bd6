"""What a command is given from outside: environment, streams, clock; and the two things all of them do with it.

Owns: asking the decisions service, printing an answer. Does not own: commands, screens, transports.

Invariant: answers go to stdout, everything else to stderr; heavy modules are imported when they are needed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from herodotus_cli.errors import CliError

if TYPE_CHECKING:
    import click

    from herodotus_cli.connection import Connection
    from herodotus_cli.options import Output
    from herodotus_cli.render.blocks import Block, View
    from herodotus_cli.transport.begun import Begun
    from herodotus_cli.transport.questions import Selected

Json = dict[str, Any]
Screen = Callable[["View"], Sequence["Block"]]
SCREENS = ("", "wide")
USUAL_WIDTH = 80
LEAST_WIDTH = 40  # narrower terminals scroll sideways; a table of one letter a line helps nobody


class Environment(NamedTuple):
    """The process around a command."""

    environ: Mapping[str, str]
    out: TextIO
    now: Callable[[], datetime]
    width: Callable[[], int]
    begun: Begun | None = None  # questions that are under way already
    height: Callable[[], int] = int  # of the terminal; 0: none

    def ask(self, connection: Connection, path: str, output: Output, screen: str = "") -> Json:
        """The document behind a question. `screen`: what will draw it, which is imported while kubectl works."""
        from herodotus_cli.transport import connect

        if screen and output.format in SCREENS:
            drawing = (screen, "terminal" if self.on_terminal(output) else "plain")
            threading.Thread(target=_import, args=drawing, daemon=True).start()
        return connect(connection, self.environ, self.begun).get(path)

    def namespace(self, given: str, connection: Connection) -> str:
        """The namespace that is meant. The kubeconfig is read only where it has to say something."""
        if given and (connection.context == "" or not connection.endpoint):
            return given
        from herodotus_cli import kubeconfig, options

        default = kubeconfig.namespace(self.environ, connection.kubeconfig, connection.context)
        if not options.is_name(default):
            raise CliError(f"error: kubeconfig: namespace {default!r} is not a valid name")
        return given or default

    def answer(
        self,
        ask: Callable[[], None],
        connection: Connection,
        output: Output,
        namespace: str = "",
        selected: Selected | None = None,
    ) -> None:
        """Asks and prints, with --watch again whenever decisions come."""
        if not output.watch:
            ask()
            return
        from herodotus_cli import following
        from herodotus_cli.transport import connect, questions

        first = True

        def again() -> None:
            nonlocal first
            if not first and output.format in SCREENS:
                self.out.write("\n")
            first = False
            ask()
            self.out.flush()

        following.anew(connect(connection, self.environ), namespace, selected or questions.EVERY, again)

    def show(self, document: Json, output: Output, screen: Screen) -> None:
        """Prints a document as it is, or the screen that is made of it."""
        if output.format not in SCREENS:
            from herodotus_cli.render import documents

            self.out.write(documents.text(document, output.format))
            return
        from herodotus_cli.render.blocks import View

        on_terminal = self.on_terminal(output)
        view = View(
            now=self.now(),
            width=max(LEAST_WIDTH, self.width()) if on_terminal else None,
            wide=output.format == "wide",
            headers=output.headers,
            utc=output.utc,
        )
        text = _drawn(_blocks(screen, view), view, color=self.color(output))
        if not self.out.isatty() or output.watch:
            self.out.write(text)
            return
        from herodotus_cli import paging

        paging.write(text, self.out, self.environ, self.height())

    def on_terminal(self, output: Output) -> bool:
        """Whether the screen is drawn for people: on a terminal, or where colour is demanded."""
        return output.format in SCREENS and (self.out.isatty() or output.color == "always")

    def color(self, output: Output) -> bool:
        """Whether colour is wanted."""
        if output.color != "auto":
            return output.color == "always"
        return self.out.isatty() and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"


class Given(NamedTuple):
    """What a command finds in click's context."""

    around: Environment


def given(ctx: click.Context) -> Given:
    """What `main` gave to the command line that a context belongs to."""
    found = ctx.find_object(Given)
    assert found is not None
    return found


def surroundings(begun: Begun | None = None) -> Environment:
    """The process that we are."""
    return Environment(os.environ, sys.stdout, lambda: datetime.now().astimezone(), _width, begun, _height)


def _height() -> int:
    """Lines of the terminal that is written to; 0 where nobody could use a pager."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines if sys.stdin and sys.stdin.isatty() else 0
    except (OSError, ValueError):
        return 0


def _width() -> int:
    """Columns of the terminal that is written to. COLUMNS says otherwise."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):  # not a terminal: colour was demanded
        return USUAL_WIDTH


def _import(*names: str) -> None:
    for name in names:
        import_module(f"herodotus_cli.render.{name}")


def _blocks(screen: Screen, view: View) -> Sequence[Block]:
    try:
        return screen(view)
    except (LookupError, TypeError, AttributeError, ValueError) as e:
        raise CliError(
            f"error: the answer has another shape than this version knows ({type(e).__name__}: {e})",
            ["compare: kubectl herodotus version", "see it: -o json"],
        ) from e


def _drawn(blocks: Sequence[Block], view: View, *, color: bool) -> str:
    if view.piped:
        from herodotus_cli.render import plain

        return plain.text(blocks, view)
    from herodotus_cli.render import terminal

    return terminal.text(blocks, view, color=color)
