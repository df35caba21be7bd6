"""The environment of a command: variables, streams, clock, terminal; fetching an answer and printing it.

Owns: sending the request of a command, choosing how its answer is printed. Does not own: commands, screens, transports.

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

    from herodotus_cli.connection import ConnectionSettings
    from herodotus_cli.option_values import OutputOptions
    from herodotus_cli.render.screen_elements import Block, ViewOptions
    from herodotus_client.api_paths import DecisionSelector

Json = dict[str, Any]
Screen = Callable[["ViewOptions"], Sequence["Block"]]
SCREEN_FORMATS = ("", "wide")
DEFAULT_WIDTH = 80
_PROMPT_AND_NOTE_LINES = 2  # that stay free on a terminal below a screen
MIN_WIDTH = 40  # narrower terminals scroll sideways: tables with a letter per line cannot be read


class Environment(NamedTuple):
    """What a command uses of its process: environment variables, output stream, clock, terminal.

    `width` and `height` return the terminal's columns and lines; a height of 0 means that no pager can be used. With
    `collect`, screens are not printed: it is called with the document and the function that builds its screen.
    """

    environ: Mapping[str, str]
    out: TextIO
    now: Callable[[], datetime]
    width: Callable[[], int]
    height: Callable[[], int] = int
    collect: Callable[[Mapping[str, Any], Screen], None] | None = None

    def fetch(self, connection: ConnectionSettings, path: str, output: OutputOptions, screen: str = "") -> Any:
        """Request `path` from the decisions service and return the JSON document, whose type the caller declares.

        `screen` names the render module that will draw the document; it is imported while the request runs.
        """
        from herodotus_cli.transport import connect

        if screen and output.format in SCREEN_FORMATS:
            writer = "terminal" if self.draws_on_terminal(output) else "plain_text"
            threading.Thread(target=_import_renderers, args=(screen, writer), daemon=True).start()
        return connect(connection, self.environ).get(path)

    def resolve_namespace(self, given: str, connection: ConnectionSettings) -> str:
        """Return `given`, or if it is empty the namespace of the kubeconfig's context.

        Raises CliError if the kubeconfig cannot be read or its namespace is not a valid name.
        """
        if given and (connection.context == "" or not connection.endpoint):
            return given
        from herodotus_cli import kubeconfig, object_names

        default = kubeconfig.namespace(self.environ, connection.kubeconfig, connection.context)
        if not object_names.is_valid_name(default):
            raise CliError(f"error: kubeconfig: namespace {default!r} is not a valid name")
        return given or default

    def run_or_watch(
        self,
        print_once: Callable[[Environment], None],
        connection: ConnectionSettings,
        output: OutputOptions,
        namespace: str = "",
        selector: DecisionSelector | None = None,
    ) -> None:
        """Call `print_once` with an environment; with --watch, also after each change of a decision and regularly.

        The regular calls show what changes no decision, such as the deletion of a pod. On a terminal each screen
        replaces the one before. `namespace` and `selector` choose the decisions to watch.
        """
        if not output.watch:
            print_once(self)
            return
        from herodotus_cli import decision_watch
        from herodotus_cli.transport import connect
        from herodotus_client import api_paths

        transport, chosen = connect(connection, self.environ), selector or api_paths.ALL_DECISIONS
        if self.out.isatty() and output.format in SCREEN_FORMATS and self.environ.get("TERM") != "dumb":
            from herodotus_cli.watch_screen import WatchScreen

            with WatchScreen(self, output) as screen:
                decision_watch.repeat_on_decisions(transport, namespace, chosen, lambda: screen.draw_next(print_once))
        first = True

        def print_again() -> None:
            nonlocal first
            if not first and output.format in SCREEN_FORMATS:
                self.out.write("\n")
            first = False
            print_once(self)
            self.out.flush()

        decision_watch.repeat_on_decisions(transport, namespace, chosen, print_again)

    def view_options(self, output: OutputOptions) -> ViewOptions:
        """Return the options for drawing a screen: present time, size of the terminal, headers and time zone.

        `width` is None if the output is not a terminal, so that lines are not cut.
        """
        from herodotus_cli.render.screen_elements import SCREEN_LINES, ViewOptions

        return ViewOptions(
            now=self.now(),
            width=max(MIN_WIDTH, self.width()) if self.draws_on_terminal(output) else None,
            lines=max(SCREEN_LINES, self.height() - _PROMPT_AND_NOTE_LINES),
            wide=output.format == "wide",
            headers=output.headers,
            utc=output.utc,
        )

    def print_answer(self, document: Mapping[str, Any], output: OutputOptions, screen: Screen) -> None:
        """Print a document in the chosen format: JSON, YAML, names, or the screen that `screen` builds from it."""
        if self.collect is not None:
            self.collect(document, screen)
            return
        if output.format not in SCREEN_FORMATS:
            self.out.write(self.format_document(document, output))
            return
        view = self.view_options(output)
        text = draw_blocks(build_blocks(screen, view), view, color=self.uses_color(output))
        if output.watch:
            self.out.write(text)
        else:
            self.print_text(text)

    def print_text(self, text: str) -> None:
        """Print a text, on a terminal through the pager if it is longer than the screen."""
        if not self.out.isatty():
            self.out.write(text)
            return
        from herodotus_cli import pager

        pager.write(text, self.out, self.environ, self.height())

    def format_document(self, document: Mapping[str, Any], output: OutputOptions, *, of_stream: bool = False) -> str:
        """Return a document as text in the chosen format, which is not a screen's.

        With `of_stream`, JSON takes one line, YAML has `---` above it, and custom columns have no header. The short
        form always takes one line.
        """
        from herodotus_cli.output_formats import BRIEF, is_template
        from herodotus_cli.render import documents

        if output.format == BRIEF:
            return documents.serialize_event(_shorten(document), "json")
        if is_template(output.format):
            from herodotus_cli import templates  # here, because few commands need it

            text = templates.evaluate(document, output.format, self.environ, headers=output.headers and not of_stream)
            return f"{text}\n" if of_stream and not text.endswith("\n") else text
        try:
            return (documents.serialize_event if of_stream else documents.serialize)(document, output.format)
        except ValueError as e:
            raise CliError(f"error: -o {output.format}: {e}", ["print the whole document: -o json"]) from None

    def draws_on_terminal(self, output: OutputOptions) -> bool:
        """Return whether to lay out a screen for a terminal: stdout is a terminal, or colour is forced."""
        return output.format in SCREEN_FORMATS and (self.out.isatty() or output.color == "always")

    def uses_color(self, output: OutputOptions) -> bool:
        """Return whether to colour the output, by --color, NO_COLOR, TERM and whether stdout is a terminal."""
        if output.color != "auto":
            return output.color == "always"
        return self.out.isatty() and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"


def _shorten(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the short form of a document. Raises CliError if its kind has none."""
    from herodotus_answers.brief import shorten  # here, because few commands need it

    try:
        return shorten(document)
    except ValueError as e:
        raise CliError(f"error: -o brief: {e}", ["print the whole document: -o json"]) from None


def environment_of(ctx: click.Context) -> Environment:
    """Return the environment that `command_line.run` put into click's context."""
    environment = ctx.find_object(Environment)
    assert environment is not None
    return environment


def process_environment() -> Environment:
    """Return the environment of this process: its variables, stdout, clock and terminal."""
    return Environment(os.environ, sys.stdout, lambda: datetime.now().astimezone(), _terminal_width, _terminal_height)


def _terminal_height() -> int:
    """Return the number of lines of the terminal, or 0 if no pager can be used: stdin or stdout is no terminal."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines if sys.stdin and sys.stdin.isatty() else 0
    except (OSError, ValueError):
        return 0


def _terminal_width() -> int:
    """Return the width in columns: COLUMNS if it is set, else that of the terminal on stdout, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):  # not a terminal, but colour is forced
        return DEFAULT_WIDTH


def _import_renderers(*names: str) -> None:
    for name in names:
        import_module(f"herodotus_cli.render.{name}")


def build_blocks(screen: Screen, view: ViewOptions) -> Sequence[Block]:
    """Return the blocks of a screen. Raises CliError if the document lacks the form that this version reads."""
    try:
        blocks = screen(view)
        return blocks if view.headers else _keep_rows(blocks)
    except (LookupError, TypeError, AttributeError, ValueError) as e:
        raise CliError(
            f"error: the decisions service returned a document that this version cannot read ({type(e).__name__}: {e})",
            ["compare the versions: kubectl herodotus version", "show the document: -o json"],
        ) from e


def _keep_rows(blocks: Sequence[Block]) -> Sequence[Block]:
    """Return the tables that have a header, for --no-headers: sentences and labelled lines are left out."""
    from herodotus_cli.render.screen_elements import Table

    return [block for block in blocks if isinstance(block, Table) and block.header]


def draw_blocks(blocks: Sequence[Block], view: ViewOptions, *, color: bool) -> str:
    """Return the text of a screen: plain for piped output, as `view` says, otherwise for a terminal.

    `color` says whether the text for a terminal is coloured.
    """
    if view.piped:
        from herodotus_cli.render import plain_text

        return plain_text.draw(blocks, view)
    from herodotus_cli.render import terminal

    return terminal.draw(blocks, view, color=color)
