"""The transport through the API server, with kubectl as the client, which supports every kind of credential.

Owns: finding the route that works, turning kubectl's error messages into errors, and hints on what to do if nothing
answers. Does not own: kubectl's command lines and the routes (`kubectl_command`), paths of requests.

Only when the API server refuses a request does the transport look for the APIService, which every user may read, and
try the request by the possible routes. So a normal answer costs one request.

kubectl prints a Status as `Error from server (Reason): message` and drops its `details`, which name similar pods and so
help after a typing error. For a NotFound the request is therefore repeated with kubectl's log of response bodies. If
kubectl logs in an unknown form, only those hints are lost.

The time limit is enforced here, because kubectl's --request-timeout becomes a query parameter that the proxy forwards.

Invariant: kubectl's log is parsed, never shown.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import (
    CliError,
    ConnectionFailedError,
    NotEvaluatedError,
    ProxyStartError,
    ServerError,
    ServiceMissingError,
    from_service_error,
    unreachable,
)
from herodotus_cli.transport.api_server_queries import (
    LivePodQuery,
    NodePodsQuery,
    NodeZonesQuery,
    RefusedPodsQuery,
    RightsQuery,
    UnassignedPodsQuery,
)
from herodotus_cli.transport.kubectl_command import (
    API_SERVICE,
    PLAIN_HTTP_PROXY,
    PROXY,
    KubectlCommand,
    kill_process,
    start_process,
)
from herodotus_client import api_paths
from herodotus_client.responses import ServiceError, parse_response

if TYPE_CHECKING:
    from herodotus_cli.transport import Transport

Json = dict[str, Any]
KubectlResult = subprocess.CompletedProcess[bytes]
# Regular expressions are compiled when they are first used, after kubectl was started.
_SERVER_ERROR = r"(?s)Error from server(?: \((\w+)\))?: (.*)"
# kubectl 1.32 and later, and earlier versions
_LOGGED_BODY = r'"Response Body" body=("(?:[^"\\]|\\.)*")|Response Body: (\{.*\})'
_NEEDED = {
    "get": "needed: the ClusterRole herodotus-view in the pod's namespace, for nodes and balance herodotus-nodes",
    "create": "needed: the ClusterRole herodotus-whatif in the pod's namespace, which edit and admin include",
}
_NEEDED_OF_CLUSTERS = "needed: get on clusters.herodotus.dev with that cluster's ID, and list (docs/fleet.md)"
_ADDRESS_HINT = "is it elsewhere?  --service NAMESPACE/NAME:PORT (HERODOTUS_SERVICE) or --endpoint URL"
_CLUSTER_HINTS = (
    "which cluster is it?  kubectl cluster-info; KUBECONFIG, --kubeconfig and --context name another",
    "or ask the decisions service directly: --endpoint URL",
)
_LOG_BODIES = "-v=10"  # below that kubectl cuts them
_ROUTE_UNKNOWN = "the server could not find the requested resource"
_NO_TLS = "first record does not look like a TLS handshake"  # as the API server words it
_UNAUTHORIZED = "error: You must be logged in to the server"  # how kubectl words a 401
_INVALID = r"(?s)The (?:request|\S+ \".*?\") is invalid: (.*)"  # how kubectl words a 422
# What the API server or its proxy answers in place of the service. A message of the service itself has other words.
_PROXY_REASONS = ("ServiceUnavailable", "InternalError", "Timeout", "Unknown")
_PROXY_ERROR = (
    "no endpoints available|no service port|[Ee]rror trying to reach service|currently unable to handle"
    "|an error on the server|EOF"  # the former is how kubectl words a body that is no Status
)


class KubectlTransport:
    """The transport that reaches the decisions service through the API server.

    It runs `kubectl get --raw` for each request, or `kubectl create --raw` to send a document.
    """

    def __init__(self, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
        self._connection, self._environ = connection, environ
        self._kubectl = KubectlCommand(connection, environ)

    def get(self, path: str) -> dict[str, Any]:
        try:
            return self.get_from_service(path)
        except CliError as e:
            failure = e
        if path != api_paths.service_version() and self.has_no_service(failure):
            return self._answer_locally(failure, lambda local: local.get(path))
        if isinstance(failure, ServerError) and failure.reason == "NotFound":
            failure.details = _parse_logged_details(_stderr(self._run(self._kubectl.service_path(path), _LOG_BODIES)))
        raise failure

    def get_from_service(self, path: str) -> dict[str, Any]:
        """Return the JSON document at a path of the decisions service. Raises CliError, also if there is no service."""
        run = self._run_on_working_route(path, self._run)
        if run.returncode:
            raise self._failure(_stderr(run))
        return _parse(run.stdout, "the decisions service")

    def post(self, path: str, document_: Json) -> dict[str, Any]:
        """Send a document with `kubectl create --raw` and return the response document."""
        run = self._run_on_working_route(path, lambda path: self._send(path, document_))
        if run.returncode:
            failure = self._failure(_stderr(run), "create")
            if self.has_no_service(failure):
                return self._answer_locally(failure, lambda local: local.post(path, document_))
            raise failure
        return _parse(run.stdout, "the decisions service")

    def has_no_service(self, failure: CliError) -> bool:
        """Return whether `failure`, the error of a request, shows that this user's cluster has no decisions service.

        A user without the right to the service's proxy is refused whether or not the Service exists. If the user may
        not see the Service either, it counts as missing. With --cluster or --service the result is False.
        """
        if self._kubectl.has_custom_service or self._connection.cluster:  # local mode reads another cluster
            return False
        if isinstance(failure, ServiceMissingError):
            return True
        if not isinstance(failure, ServerError) or not failure.words.startswith("services "):
            return False
        service = self._connection.service
        service_run = self._run(f"/api/v1/namespaces/{service.namespace}/services/{service.name}")
        reason, words = _parse_status(_stderr(service_run))
        return reason == "Forbidden" or _is_service_missing(reason, words)

    def _answer_locally(self, failure: CliError, ask: Callable[[Transport], Json]) -> Json:
        """Return what `ask` returns for the transport of local mode, because the cluster has no decisions service.

        Raises `failure` if local mode cannot start, with a hint if it is not installed.
        """
        from herodotus_cli.transport import local, open_local

        if not local.is_installed():
            raise CliError(failure.message, [*failure.hints, local.describe_installation()])
        try:
            return ask(open_local(self._connection, self._environ))
        except ProxyStartError:
            raise failure from None
        except NotEvaluatedError as e:
            if e.reason != "Forbidden" or isinstance(failure, ServiceMissingError):
                raise
            raise e.with_hints([f"a decisions service, if there is one: {failure.hints[0]}"]) from None

    def get_from_api_server(self, path: str) -> dict[str, Any]:
        """Return the JSON document at a path of the API server itself. Raises CliError if the request fails."""
        run = self._run(path)
        if run.returncode:
            message = _stderr(run)
            if _parse_status(message) == ("NotFound", _ROUTE_UNKNOWN):
                raise CliError("error: the API server does not serve this kind of object")
            raise self._failure(message)
        return _parse(run.stdout, "the API server")

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """Request a watch and yield its documents, one per line, without a time limit.

        Raises ConnectionFailedError if the connection breaks. Call `get` first, because it finds the route to the
        service.
        """
        self._require_kubectl()
        command = self._kubectl.raw("get", self._kubectl.service_path(path))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            try:
                for line in process.stdout:
                    if line.endswith(b"\n"):  # otherwise the connection broke within the line
                        yield _parse(line, "the decisions service")
                message = process.stderr.read().decode("utf-8", "replace").strip()
            finally:
                process.kill()
        if process.returncode and message:
            failure = self._failure(message)
            if isinstance(failure, ServerError):
                raise failure
            raise ConnectionFailedError(failure.message, failure.hints)

    def find_pages_url(self) -> str:
        """Return the address of the web pages through the API server, by the route that works.

        Returns "" if the kubeconfig names no API server.
        """
        view = self._kubectl.complete("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
        server = self._run_to_end(view).stdout.decode("utf-8", "replace").strip().rstrip("/")
        return f"{server}{self._kubectl.service_path(api_paths.web_pages())}" if server.startswith("http") else ""

    @property
    def service_prefix(self) -> str:
        """The prefix of the service's paths behind `kubectl proxy`. Call `get` first, because it finds the route."""
        return self._kubectl.service_path("")

    def service_proxy(self, socket: str) -> list[str]:
        """Return the command line of `kubectl proxy` for the web pages.

        It forwards requests for the decisions service, and for the objects of the cluster that the pages read.
        """
        service = re.escape(self._kubectl.service_path(f"{api_paths.api_group()}/"))
        return self._proxy(socket, f"{service}|{api_paths.PAGES_READ}", "PUT|PATCH|DELETE")

    def cluster_proxy(self, socket: str) -> list[str]:
        """Return the command line of `kubectl proxy` that forwards requests for any object of the cluster."""
        return self._proxy(socket, "/", "POST|PUT|PATCH|DELETE")

    def _proxy(self, socket: str, paths: str, rejected_methods: str) -> list[str]:
        """Return the command line of `kubectl proxy` on a Unix socket, for paths that begin as the regexp `paths`."""
        self._require_kubectl()
        limits = [
            f"--accept-paths=^({paths})",
            "--reject-paths=^$",
            f"--reject-methods=^({rejected_methods})$",
        ]
        return self._kubectl.complete("proxy", f"--unix-socket={socket}", *limits)

    def live_pod(self, namespace: str, pod: str) -> LivePodQuery:
        """Start a request to the API server for the Pod object that has this name now."""
        return LivePodQuery(self._get_concurrently(api_paths.cluster_pod(namespace, pod)))

    def unassigned_pods(self, namespace: str, labels: str) -> UnassignedPodsQuery:
        """Start a request to the API server for the pods without a node. `labels` is a label selector."""
        return UnassignedPodsQuery(self._get_concurrently(api_paths.unassigned_pods(namespace, labels=labels)))

    def refused_pods(self, namespace: str) -> RefusedPodsQuery:
        """Start a request to the API server for an event that a pod could not be created."""
        return RefusedPodsQuery(self._get_concurrently(api_paths.refused_pods(namespace)))

    def pods_on_node(self, node: str) -> NodePodsQuery:
        """Start a request to the API server for the pods on a node."""
        return NodePodsQuery(self._get_concurrently(api_paths.pods_on_node(node)))

    def rights(self, namespace: str) -> RightsQuery:
        """Start a request to the API server for what the user may do in the namespace."""
        command = self._kubectl.complete("auth", "can-i", "--list", "--no-headers", f"--namespace={namespace}")
        return RightsQuery(self._start_concurrently(command))

    def node_zones(self, nodes: Sequence[str]) -> NodeZonesQuery:
        """Start a request to the API server for the zones of these nodes."""
        return NodeZonesQuery(self._get_concurrently(api_paths.nodes_by_hostname(nodes)) if nodes else None)

    def _get_concurrently(self, path: str) -> subprocess.Popen[bytes] | None:
        return self._start_concurrently(self._kubectl.raw("get", path))

    def _start_concurrently(self, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
        """Start kubectl and return the process, or None if kubectl cannot run."""
        with suppress(OSError):
            return start_process(command, inherits_stdin=False) if self._kubectl.program else None
        return None

    def _run_on_working_route(self, path: str, ask: Callable[[str], KubectlResult]) -> KubectlResult:
        """Run a request by the cached route to the decisions service, or by the first other route that reaches it.

        `ask` runs the request with the API server's path for a route. The route that works is cached.
        """
        first = ask(self._kubectl.service_path(path))
        if self._kubectl.has_custom_service or _reached_service(first):
            return first
        current = self._kubectl.route
        tried = {current: first}

        def reaches_service(route: str) -> bool:
            if route not in tried:
                tried[route] = ask(self._kubectl.path_by_route(route, path))
            return _reached_service(tried[route])

        routes = self._candidate_routes() or (current,)
        if current in routes:  # it worked before, or is the default: its failure says most if no route works
            routes = (current, *(route for route in routes if route != current))
            if _is_service_missing(*_parse_status(_stderr(first))):  # and the other route leads to the same Service
                return first
        self._kubectl.route = next(filter(reaches_service, routes), routes[0])
        return tried[self._kubectl.route]

    def _candidate_routes(self) -> tuple[str, ...]:
        """Return the routes by which the service may be reached; () if it is unknown whether there is an APIService.

        If there is an APIService, it is the only route; otherwise the Service is reached through the API server's
        proxy.
        """
        run = self._run(api_paths.api_group())
        reason, words = _parse_status(_stderr(run))
        if not run.returncode or reason == "ServiceUnavailable":  # it exists, though its backend may be down
            return (API_SERVICE,)
        return (PROXY, PLAIN_HTTP_PROXY) if words == _ROUTE_UNKNOWN else ()

    def _send(self, path: str, document: Json) -> KubectlResult:
        return self._run_to_end(self._kubectl.raw("create", path, "-f", "-"), json.dumps(document).encode())

    def _run(self, path: str, *more: str) -> KubectlResult:
        return self._run_to_end(self._kubectl.raw("get", path, *more))

    def _run_to_end(self, command: Sequence[str], stdin: bytes | None = None) -> KubectlResult:
        """Run kubectl within the time limit, with `stdin` as its input, and return its result.

        Raises CliError if it cannot run or is too slow.
        """
        self._require_kubectl()
        timeout_s = self._connection.request_timeout_s
        try:
            process = start_process(command, has_input=stdin is not None)
            try:
                out, err = process.communicate(stdin, timeout=timeout_s or None)
            finally:
                kill_process(process)
        except subprocess.TimeoutExpired:
            raise unreachable(
                f"kubectl: no response within {timeout_s:g}s",
                [self._describe_service_check(), "wait longer: --request-timeout"],
            ) from None
        except OSError as e:
            raise CliError(f"error: cannot run kubectl ({self._kubectl.program}): {e.strerror}") from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def _require_kubectl(self) -> None:
        if not self._kubectl.program:
            raise CliError("error: kubectl is not on PATH", ["or ask the decisions service directly: --endpoint URL"])

    def _failure(self, message: str, verb: str = "get") -> CliError:
        """Return the error to raise for kubectl's message on stderr.

        `verb` is the right that the request needs, for the hint of a Forbidden error.
        """
        service = self._connection.service
        reason, words = _parse_status(message)
        if not reason:
            return self._not_from_a_server(message)
        if _is_service_missing(reason, words):
            return ServiceMissingError(
                f"error: the decisions service did not answer (kubectl: {words})",
                [self._describe_service_check(), _ADDRESS_HINT],
            )
        if reason == "NotFound" and words == _ROUTE_UNKNOWN:
            return CliError(
                "error: the decisions service does not serve this resource",
                ["compare the versions: kubectl herodotus version"],
            )
        if _is_proxy_error(reason, words):
            named = f"--service {service.namespace}/http:{service.name}:{service.port}"
            plain = [f"it speaks plain HTTP: upgrade it, name its port plain-http, or ask with  {named}"]
            return unreachable(f"kubectl: {words}", [self._describe_service_check(), *plain * (_NO_TLS in words)])
        if reason == "Forbidden" and words.startswith("services "):
            needs = f"needed: {verb} on services/proxy, {service.scheme}:{service.name}:{service.port}"
            local = "or evaluate the cluster with your own rights: --local"
            return ServerError(reason, words, hints=[f"{needs} in namespace {service.namespace}", local])
        if reason == "Forbidden" and words.startswith("clusters."):
            return ServerError(reason, words, hints=[_NEEDED_OF_CLUSTERS])
        if reason == "Forbidden" and self._kubectl.route == API_SERVICE:
            return ServerError(reason, words, hints=[_NEEDED[verb]])
        return ServerError(reason, words)

    def _not_from_a_server(self, message: str) -> CliError:
        invalid = re.match(_INVALID, message)
        if invalid:
            return ServerError("Invalid", invalid[1].strip())
        last = _last_line(message) or "it failed without a message"
        if last.startswith(_UNAUTHORIZED) and self._kubectl.has_custom_service:
            return CliError(
                last,
                ["the service may require an identity, which its proxy does not pass on: leave out --service"],
            )
        if last.startswith("error: "):
            return CliError(last)
        return ConnectionFailedError(
            f"error: the API server did not answer (kubectl: {last})", self._describe_cluster_check()
        )

    def _describe_service_check(self) -> str:
        """Return how to see whether the decisions service runs; in the demo, how to start it again."""
        installer = self._find_demo()
        if installer is not None:
            return f"the demo's service may have ended; start it again: {installer} --demo-restart endpoint"
        return f"is it running?  kubectl -n {self._connection.service.namespace} get pods"

    def _describe_cluster_check(self) -> tuple[str, ...]:
        """Return how to see which API server got the request; in the demo, how to start its cluster again."""
        installer = self._find_demo()
        return (
            _CLUSTER_HINTS if installer is None else (f"the demo may have ended; start it again: {installer} --demo",)
        )

    def _find_demo(self) -> str | None:
        """Return the command line of install.sh if the connection is to the demo's cluster, otherwise None.

        No pod runs the demo's service. The demo's kubeconfig is in the folder `demo` of an installation.
        """
        from pathlib import Path  # here, because only failures need them

        from herodotus_cli import kubeconfig
        from herodotus_record.installation import find_installer

        files = kubeconfig.files(self._environ, self._connection.kubeconfig)
        if len(files) != 1 or (folder := Path(files[0]).absolute().parent).name != "demo":
            return None
        return find_installer(folder.parent)


def _parse(body: bytes, source: str) -> Json:
    """Return the JSON document in a response body. Raises CliError, which names `source`, if there is none."""
    try:
        return parse_response(body)
    except ServiceError as e:
        raise from_service_error(e, source) from None


def _stderr(run: KubectlResult) -> str:
    return run.stderr.decode("utf-8", "replace").strip()


def _parse_status(message: str) -> tuple[str, str]:
    """Return reason and message of the Status in kubectl's output, or two empty strings if there is none."""
    match = re.search(_SERVER_ERROR, message)
    return (match[1] or "Unknown", match[2].strip()) if match else ("", "")


def _reached_service(run: KubectlResult) -> bool:
    """Return whether the decisions service answered, if only with an error, so that no other route needs to be tried.

    An Unauthorized error does not count, because a service that requires identities refuses requests that come through
    the API server's service proxy. A Forbidden error does not count either: the API server checks rights before it
    looks whether there is such a route.
    """
    message = _stderr(run)
    reason, words = _parse_status(message)
    if not run.returncode:
        return True
    if _last_line(message).startswith(_UNAUTHORIZED) or reason == "Forbidden":
        return False
    return not (words == _ROUTE_UNKNOWN or _is_service_missing(reason, words) or _is_proxy_error(reason, words))


def _last_line(message: str) -> str:
    return message.splitlines()[-1] if message else ""


def _is_service_missing(reason: str, words: str) -> bool:
    return reason == "NotFound" and bool(re.match(r'(services|namespaces) "', words))


def _parse_logged_details(log: str) -> Json:
    """Return the `details` of the last Status in kubectl's log of response bodies, or {} if it has none."""
    try:
        bodies = [json.loads(quoted) if quoted else plain for quoted, plain in re.findall(_LOGGED_BODY, log)]
        details = json.loads(bodies[-1])["details"]
    except (IndexError, KeyError, TypeError, ValueError):
        return {}
    return details if isinstance(details, dict) else {}


def _is_proxy_error(reason: str, words: str) -> bool:
    """Return whether an error is from the API server's proxy and not from the service behind it."""
    return reason in _PROXY_REASONS and re.search(_PROXY_ERROR, words) is not None
