"""`kubectl herodotus ui`: the web pages, with the user's own credentials.

Owns: its options, starting and ending the servers. Does not own: access to the pages (`transport.loopback_proxy`),
the route behind the API server (`transport.kubectl`), the pages (the decisions service).

Invariant: every process that was started ends with the command, also on SIGTERM; credentials stay with kubectl.
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

from herodotus_cli import option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import CliError, print_to_stderr, unreachable
from herodotus_cli.transport import api_paths

_PREFIX, _SOCKET = "herodotus-ui-", "kubectl"
_RANDOM_LENGTH = 8  # characters that tempfile adds
_MAX_ADDRESS = 104  # bytes of a Unix socket's address on macOS, with the final 0; Linux has 108
_POLL_INTERVAL_S = 0.05
_START_TIMEOUT_S = 10.0


@click.command(short_help="Serve the web pages with your own credentials.")
@click.option(
    "--port",
    type=parameter_types.WholeNumber(0, 65_535),
    default=0,
    metavar="N",
    help="Serve on this port of 127.0.0.1 [a free one].",
)
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
@options.ignored_namespace_option
@options.connection_options
@click.pass_context
def ui(ctx: click.Context, /, port: int, opens: bool, **_given: object) -> None:
    """Serve the web pages with your own credentials, until interrupted.

    Prints a link with a token, without which no request is accepted. The link works until the command ends.
    With --endpoint it prints the link to that service and serves nothing.

    \b
    kubectl herodotus ui
    kubectl herodotus ui --port 8080 --open
    """
    environment = environment_of(ctx)
    run(port, opens, option_values.connection_settings(ctx, environment.environ), environment)


def _socket_folder() -> str | None:
    """Return the folder for a Unix socket: /tmp if paths in TMPDIR are too long for one, otherwise None for TMPDIR."""
    path = os.path.join(tempfile.gettempdir(), f"{_PREFIX}{'x' * _RANDOM_LENGTH}", _SOCKET)
    return "/tmp" if len(os.fsencode(path)) >= _MAX_ADDRESS else None


def run(port: int, opens: bool, connection: ConnectionSettings, environment: Environment) -> None:
    """Print the link to the web pages and serve them until interrupted. With --endpoint, only print the link."""
    if connection.endpoint:
        _print_link(f"{connection.endpoint}{api_paths.web_pages()}", opens, environment)
        return
    from herodotus_cli.transport.kubectl import KubectlTransport
    from herodotus_cli.transport.loopback_proxy import LoopbackProxy

    transport = KubectlTransport(connection, environment.environ)
    transport.get(api_paths.service_version())  # finds the route, or raises what is wrong with it
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_socket_folder()) as folder:  # readable by this user only
        socket = os.path.join(folder, _SOCKET)
        command, before = transport.proxy(socket)
        with _running(command, socket) as kubectl:
            try:
                server = LoopbackProxy(port, socket, before, f"{api_paths.api_group()}/")
            except OSError as e:
                raise CliError(f"error: cannot serve on 127.0.0.1:{port}: {e.strerror}") from None
            with server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                try:
                    _print_link(f"{server.url}{api_paths.web_pages()}", opens, environment)
                    print_to_stderr("note: anyone on this machine with the link has your read access; stop with Ctrl-C")
                    kubectl.wait()
                    raise CliError(f"error: kubectl proxy ended with {kubectl.returncode}")
                finally:
                    server.shutdown()


@contextmanager
def _running(command: list[str], socket: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `kubectl proxy` during the block and yield its process as soon as its socket exists.

    Its output goes to a file, because no thread would drain a pipe.
    """
    _treat_sigterm_as_interrupt()
    log = Path(f"{socket}.log")
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as kubectl,
    ):
        try:
            until = time.monotonic() + _START_TIMEOUT_S
            while not os.path.exists(socket):
                if kubectl.poll() is not None:
                    lines = log.read_text(errors="replace").strip().splitlines()
                    raise CliError(f"error: kubectl proxy: {lines[-1] if lines else 'it ended without a message'}")
                if time.monotonic() > until:
                    raise unreachable(f"kubectl proxy: no response within {_START_TIMEOUT_S:g}s", [])
                time.sleep(_POLL_INTERVAL_S)
            yield kubectl
        finally:
            kubectl.kill()


def _treat_sigterm_as_interrupt() -> None:
    """Make SIGTERM end the command as Ctrl-C does, because its child processes would outlive it."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    with suppress(ValueError):  # not in the main thread, which alone can set handlers
        signal.signal(signal.SIGTERM, interrupt)


def _print_link(url: str, opens: bool, environment: Environment) -> None:
    environment.out.write(f"{url}\n")
    environment.out.flush()
    if opens:
        import webbrowser

        if not webbrowser.open(url):
            print_to_stderr("warning: no browser could be opened")
