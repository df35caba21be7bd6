"""`kubectl herodotus ui`: the web pages, with the user's own credentials.

Owns: its options, starting and ending the servers. Does not own: access to the pages (`transport.loopback_proxy`),
the route behind the API server (`transport.kubectl`), the pages (the decisions service).

Invariant: every process that was started ends with the command, also on SIGTERM; credentials stay with kubectl.
"""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import Any

import click

from herodotus_cli import option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import CliError, ServerError, ServiceMissingError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths

_NO_PAGES = "error: the web pages come from a decisions service, and {why}"
_WITHOUT_PAGES = ("without one, other commands evaluate the cluster: kubectl herodotus pending -A",)


@options.command(short_help="Serve the web pages with your own credentials.")
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


def run(port: int, opens: bool, connection: ConnectionSettings, environment: Environment) -> None:
    """Print the link to the web pages and serve them until interrupted. With --endpoint, only print the link."""
    if connection.cluster:
        raise CliError("error: the web pages show the service's own cluster only: leave out --cluster")
    if connection.local:
        raise CliError(_NO_PAGES.format(why="--local uses none"), _WITHOUT_PAGES)
    if connection.endpoint:
        _print_link(f"{connection.endpoint}{api_paths.web_pages()}", opens, environment)
        return
    from herodotus_cli.transport.kubectl import KubectlTransport
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy
    from herodotus_cli.transport.loopback_proxy import ForwardingRules, LoopbackProxy

    transport = KubectlTransport(connection, environment.environ)
    try:
        transport.get(api_paths.service_version())  # finds the route, or raises what is wrong with it
    except ServiceMissingError as e:
        raise CliError(_NO_PAGES.format(why="none is found in this cluster"), [*_WITHOUT_PAGES, *e.hints]) from None
    except ServerError as e:  # a hint at --local would lead here again
        raise ServerError(e.reason, e.words, e.details, [hint for hint in e.hints if "--local" not in hint]) from None
    with KubectlProxy(transport.service_proxy) as kubectl:
        socket = kubectl.wait_for_socket()
        try:
            rules = ForwardingRules(
                f"{api_paths.api_group()}/", re.compile(api_paths.PAGES_READ), re.compile(api_paths.PAGES_POST)
            )
            explain_pod = partial(_explain_pod, connection, environment)
            server = LoopbackProxy(port, socket, transport.service_prefix, rules, explain_pod)
        except OSError as e:
            raise CliError(f"error: cannot serve on 127.0.0.1:{port}: {e.strerror}") from None
        with server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                _print_link(f"{server.url}{api_paths.web_pages()}", opens, environment)
                print_to_stderr(
                    "note: anyone on this machine with the link reads decisions, pods, nodes, workloads and what"
                    " explains the state of a pod as you; stop with Ctrl-C"
                )
                raise CliError(f"error: kubectl proxy ended with {kubectl.process.wait()}")
            finally:
                server.shutdown()


def _explain_pod(
    connection: ConnectionSettings, environment: Environment, namespace: str, name: str
) -> tuple[int, dict[str, Any]]:
    """Return status 200 and the document that `kubectl herodotus pod NAME --timeline -o json` prints.

    If there is no answer, return 404 and why.
    """
    from herodotus_cli.commands import pod  # here, because the pages ask seldom

    documents: list[dict[str, Any]] = []
    collecting = environment._replace(collect=lambda document, _screen: documents.append(dict(document)))
    arguments = pod.PodArguments(
        name, namespace, attempt=None, every_node=False, node="", full=False, history=False, timeline=True
    )
    try:
        pod.run(arguments, connection, OutputOptions(format="json", headers=True, color="never"), collecting)
    except CliError as e:
        return 404, {"kind": "Status", "status": "Failure", "code": 404, "message": str(e).removeprefix("error: ")}
    return 200, documents[-1]


def _print_link(url: str, opens: bool, environment: Environment) -> None:
    environment.out.write(f"{url}\n")
    environment.out.flush()
    if opens:
        import webbrowser

        if not webbrowser.open(url):
            print_to_stderr("warning: no browser could be opened")
