"""`kubectl herodotus ui`: the web pages, with the user's own credentials.

Owns: its options, starting and ending what serves the pages. Does not own: who is let in (`transport.forwarding`), the
way behind the API server (`transport.kubectl`), the pages themselves (the decisions service).

Invariant: what was started ends with the command, also on SIGTERM; credentials stay with kubectl.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from herodotus_cli import options
from herodotus_cli.connection import Connection
from herodotus_cli.context import Environment, given
from herodotus_cli.errors import CliError, print_to_stderr, unreachable
from herodotus_cli.transport import questions

_PREFIX, _SOCKET = "herodotus-ui-", "kubectl"
_DRAWN = 8  # characters that tempfile adds
_ADDRESS = 104  # bytes of a Unix socket's address on macOS, with the 0 at its end; Linux has 108
_LOOKS_EVERY_S = 0.05
_PATIENCE_S = 10.0


@click.command(short_help="The same answers as web pages.")
@click.option(
    "--port",
    type=options.WholeNumber(0, 65_535),
    default=0,
    metavar="N",
    help="Serve on this port of 127.0.0.1 [a free one].",
)
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
@options.ignored_namespace_option
@options.connection_options
@click.pass_context
def ui(ctx: click.Context, /, port: int, opens: bool, **_given: object) -> None:
    """The same answers as web pages, with your own credentials, until you end it.

    Prints a link. Only who knows the link is let in; it ends with the command. With --endpoint it prints where that
    service has its pages, and serves nothing.

    \b
    kubectl herodotus ui
    kubectl herodotus ui --port 8080 --open
    """
    around = given(ctx).around
    run(port, opens, options.connection(ctx, around.environ), around)


def _place() -> str | None:
    """Where a socket's path is short enough for its address; TMPDIR may be too deep for that. None: there."""
    path = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{'x' * _DRAWN}", _SOCKET)
    return "/tmp" if len(os.fsencode(path)) >= _ADDRESS else None


def run(port: int, opens: bool, connection: Connection, around: Environment) -> None:
    """Prints the link, and serves until it is interrupted."""
    if connection.endpoint:
        _say(f"{connection.endpoint}{questions.pages()}", opens, around)
        return
    from herodotus_cli.transport.forwarding import Forwarding
    from herodotus_cli.transport.kubectl import KubectlTransport

    transport = KubectlTransport(connection, around.environ)
    transport.get(questions.version())  # finds the way, and says what is wrong with it
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_place()) as folder:  # for this user alone
        socket = os.path.join(folder, _SOCKET)
        command, before = transport.proxy(socket)
        with _running(command, socket) as kubectl:
            try:
                server = Forwarding(port, socket, before, f"{questions.group()}/")
            except OSError as e:
                raise CliError(f"error: cannot serve on 127.0.0.1:{port}: {e.strerror}") from None
            with server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                try:
                    _say(f"{server.url}{questions.pages()}", opens, around)
                    print_to_stderr("note: whoever has the link sees what you may see; Ctrl-C ends it")
                    kubectl.wait()
                    raise CliError(f"error: kubectl proxy ended with {kubectl.returncode}")
                finally:
                    server.shutdown()


@contextmanager
def _running(command: list[str], socket: str) -> Iterator[subprocess.Popen[bytes]]:
    """kubectl, listening; it ends with the block. What it says goes to a file: nobody would empty a pipe."""
    _end_as_interrupted()
    log = Path(f"{socket}.log")
    with (
        log.open("wb") as said,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said) as kubectl,
    ):
        try:
            until = time.monotonic() + _PATIENCE_S
            while not os.path.exists(socket):
                if kubectl.poll() is not None:
                    lines = log.read_text(errors="replace").strip().splitlines()
                    raise CliError(f"error: kubectl proxy: {lines[-1] if lines else 'it ended without a word'}")
                if time.monotonic() > until:
                    raise unreachable(f"kubectl proxy: nothing within {_PATIENCE_S:g}s", [])
                time.sleep(_LOOKS_EVERY_S)
            yield kubectl
        finally:
            kubectl.kill()


def _end_as_interrupted() -> None:
    """SIGTERM ends the command as Ctrl-C does: what it has started would outlive it."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with suppress(ValueError):  # not the process' main thread, which alone gets signals
        signal.signal(signal.SIGTERM, interrupt)


def _say(url: str, opens: bool, around: Environment) -> None:
    around.out.write(f"{url}\n")
    around.out.flush()
    if opens:
        import webbrowser

        if not webbrowser.open(url):
            print_to_stderr("no browser could be opened")
