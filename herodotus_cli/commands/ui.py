"""`kubectl herodotus ui`: the web pages, with the user's own credentials.

Owns: its options, starting and ending the servers. Does not own: access to the pages (`transport.loopback_proxy`),
the route behind the API server (`transport.kubectl`), the pages (the decisions service, or local mode).

Invariant: every process that was started ends with the command, also on SIGTERM; credentials stay with kubectl.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import click

from herodotus_cli import option_values, options, parameter_types
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.environment import Environment, environment_of
from herodotus_cli.errors import CliError, ServerError, print_to_stderr
from herodotus_cli.option_values import OutputOptions
from herodotus_client import api_paths

if TYPE_CHECKING:
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy
    from herodotus_cli.transport.loopback_proxy import LiveAnswers

_READABLE = {True: "pods, nodes, workloads", False: "decisions, pods, nodes, workloads"}


class _Upstream(NamedTuple):
    """What the pages are served from: a running `kubectl proxy`, the service's prefix there, and own answers."""

    proxy: KubectlProxy
    prefix: str
    live: LiveAnswers
    is_local: bool


@options.command(short_help="Serve the web pages with your own credentials.")
@click.argument("link", metavar="[LINK]", required=False, default="")
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
def ui(ctx: click.Context, /, link: str, port: int, opens: bool, **_given: object) -> None:
    """Serve the web pages with your own credentials, until interrupted.

    Prints a link with a token, without which no request is accepted. The link works until the command ends; "Copy link"
    on a page copies one that lasts. LINK, such a copied link, is the page to begin with.
    Without a decisions service, or with --local, the pages show the cluster as it is now. Those about the past say what
    they lack. With --endpoint it prints the link to that service and serves nothing.

    \b
    kubectl herodotus ui
    kubectl herodotus ui --port 8080 --open
    kubectl herodotus ui --local
    """
    environment = environment_of(ctx)
    run(link, port, opens, option_values.connection_settings(ctx, environment.environ), environment)


def run(link: str, port: int, opens: bool, connection: ConnectionSettings, environment: Environment) -> None:
    """Print the link to the web pages and serve them until interrupted. With --endpoint, only print the link.

    `link` is a link to a page, of which the query counts, or "". `opens` says whether a browser opens the printed link.
    Raises UsageError if `link` has no query, and CliError with --cluster or if the port is taken.
    """
    if connection.cluster:
        raise CliError("error: the web pages show the service's own cluster only: leave out --cluster")
    page = urlsplit(link).query
    if link and not page:
        raise click.UsageError(f"{link!r} is not a link to a page: it has no ?view=…")
    start = f"{api_paths.web_pages()}{'?' if page else ''}{page}"
    if connection.endpoint:
        _print_link(f"{connection.endpoint}{start}", opens, environment)
        return
    from herodotus_cli.transport.loopback_proxy import ForwardingRules, LoopbackProxy

    with ExitStack() as stack:
        upstream = _open_local(connection, environment) if connection.local else _open(connection, environment, stack)
        socket = upstream.proxy.wait_for_socket()
        try:
            rules = ForwardingRules(
                f"{api_paths.api_group()}/", re.compile(api_paths.PAGES_READ), re.compile(api_paths.PAGES_POST)
            )
            server = stack.enter_context(LoopbackProxy(port, socket, upstream.prefix, rules, upstream.live))
        except OSError as e:
            raise CliError(f"error: cannot serve on 127.0.0.1:{port}: {e.strerror}") from None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)
        _print_link(f"{server.url}{start}", opens, environment)
        print_to_stderr(
            f"note: anyone on this machine with the link reads {_READABLE[upstream.is_local]} and what explains the"
            " state of a pod as you; stop with Ctrl-C"
        )
        raise CliError(f"error: kubectl proxy ended with {upstream.proxy.process.wait()}")


def _open(connection: ConnectionSettings, environment: Environment, stack: ExitStack) -> _Upstream:
    """Start a proxy to the decisions service, which `stack` ends, and return what serves the pages.

    Without a service, that is local mode. Raises CliError if neither is available.
    """
    from herodotus_cli.transport import local
    from herodotus_cli.transport.kubectl import KubectlTransport
    from herodotus_cli.transport.kubectl_proxy import KubectlProxy
    from herodotus_cli.transport.loopback_proxy import LiveAnswers

    transport = KubectlTransport(connection, environment.environ)
    try:
        version = transport.get(api_paths.service_version())  # finds the route, or raises what is wrong with it
    except CliError as e:
        if not transport.has_no_service(e):
            raise
        if not local.is_installed():
            why = "error: the web pages come from a decisions service, and none is found in this cluster"
            raise CliError(why, [*e.hints, local.describe_installation()]) from None
        print_to_stderr(f"note: {_describe_missing(e)}: the pages show the cluster as it is now (--local)")
        return _open_local(connection._replace(local=True), environment)
    live = LiveAnswers(
        partial(_explain_pod, connection, environment), pages_url=version.get("pages") or transport.find_pages_url()
    )
    proxy = stack.enter_context(KubectlProxy(transport.service_proxy))
    return _Upstream(proxy, transport.service_prefix, live, is_local=False)


def _describe_missing(error: CliError) -> str:
    if isinstance(error, ServerError):
        return "you may not reach a decisions service in this cluster, if there is one"
    return "no decisions service is found in this cluster"


def _open_local(connection: ConnectionSettings, environment: Environment) -> _Upstream:
    """Return what serves the pages of local mode: the command's `kubectl proxy`, and answers computed in this process.

    The cluster is read when a page asks. Raises CliError if local mode is not installed or kubectl cannot run.
    """
    from herodotus_cli.transport import open_local, open_proxy
    from herodotus_cli.transport.loopback_proxy import LiveAnswers

    transport = open_local(connection, environment.environ, _print_once())
    pages = transport.open_pages()
    explain = partial(_explain_pod, connection, environment)
    live = LiveAnswers(
        lambda namespace, name: pages.while_fresh(lambda: explain(namespace, name)), answer_request=pages.answer
    )
    return _Upstream(open_proxy(connection, environment.environ), "", live, is_local=True)


def _print_once() -> Callable[..., None]:
    """Return a function that prints lines on stderr, each line once: the cluster is read many times."""
    printed = set[str]()

    def tell(*lines: str) -> None:
        new = [line for line in lines if line not in printed]
        printed.update(new)
        if new:
            print_to_stderr(*new)

    return tell


def _explain_pod(
    connection: ConnectionSettings, environment: Environment, namespace: str, name: str
) -> tuple[int, dict[str, Any]]:
    """Return status 200 and the document that `kubectl herodotus pod NAME --timeline -o json` prints, with `holders`.

    Those are the pods that hold what a waiting pod lacks, if any do. If there is no answer, return 404 and why.
    """
    from herodotus_cli.commands import pod  # here and below, because the pages ask seldom
    from herodotus_cli.live_pods import LivePodReader, PodArguments
    from herodotus_cli.render.suggestions import build_holders_document

    documents: list[dict[str, Any]] = []
    collecting = environment._replace(collect=lambda document, _screen: documents.append(dict(document)))
    arguments = PodArguments(
        name, namespace, attempt=None, every_node=False, node="", full=False, history=False, timeline=True
    )
    output = OutputOptions(format="json", headers=True, color="never")
    try:
        pod.run(arguments, connection, output, collecting)
    except CliError as e:
        return 404, {"kind": "Status", "status": "Failure", "code": 404, "message": str(e).removeprefix("error: ")}
    facts = LivePodReader(arguments, connection, output, environment).read_facts(documents[-1])
    holders = build_holders_document(facts.holders) if facts and facts.holders else None
    return 200, documents[-1] | ({"holders": holders} if holders else {})


def _print_link(url: str, opens: bool, environment: Environment) -> None:
    environment.out.write(f"{url}\n")
    environment.out.flush()
    if opens:
        import webbrowser

        if not webbrowser.open(url):
            print_to_stderr("warning: no browser could be opened")
