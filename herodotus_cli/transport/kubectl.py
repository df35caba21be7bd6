"""Through the API server, with kubectl as the client: it knows every kind of credential.

Owns: what is done when the way behind the API server is another one, and the meaning of what kubectl prints when it
fails. Does not own: kubectl's command line and the ways (`kubectl_command`), what is asked.

Only where the API server refuses a question is the APIService looked for (every user of a cluster may), and the
question asked again by the ways that there may be. So an answer costs one request.

kubectl prints a Status as `Error from server (Reason): message` and drops what else it holds. Its `details` name
similar pods, which is what helps after a typing error: so a NotFound is asked once more with kubectl's log of response
bodies. A kubectl that logs in another form costs those hints, nothing else.

The time limit is kept here: kubectl's own --request-timeout becomes a query parameter, which the proxy would forward.

Invariant: kubectl's log is read, never shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from herodotus_cli.connection import Connection
from herodotus_cli.errors import CliError, ConnectionFailedError, ServerError, unreachable
from herodotus_cli.transport import questions
from herodotus_cli.transport.begun import Begun, start
from herodotus_cli.transport.body import document
from herodotus_cli.transport.kubectl_command import API_SERVICE, PLAIN, PROXY, KubectlCommand
from herodotus_cli.transport.live import LivePod, NodeZones, UnassignedPods

if TYPE_CHECKING:
    from herodotus_cli.transport.begun import Process

Json = dict[str, Any]
_SERVER_ERROR = re.compile(r"Error from server(?: \((\w+)\))?: (.*)", re.DOTALL)
# as kubectl 1.32 logs a body, and as those before did
_LOGGED_BODY = re.compile(r'"Response Body" body=("(?:[^"\\]|\\.)*")|Response Body: (\{.*\})')
_NEEDED = {
    "get": "needed: the ClusterRole herodotus-view in the pod's namespace, for nodes and balance herodotus-nodes",
    "create": "needed: the ClusterRole herodotus-whatif in the pod's namespace, which edit and admin include",
}
_WHICH = (
    "which one is asked?  kubectl cluster-info; KUBECONFIG, --kubeconfig and --context name another",
    "or ask the decisions service directly: --endpoint URL",
)
_ELSEWHERE = "is it elsewhere?  --service NAMESPACE/NAME:PORT (HERODOTUS_SERVICE) or --endpoint URL"
_LOG_BODIES = "-v=10"  # below that kubectl cuts them
_ROUTE_UNKNOWN = "the server could not find the requested resource"
_NO_TLS = "first record does not look like a TLS handshake"  # as the API server words it
_UNAUTHORIZED = "error: You must be logged in to the server"  # how kubectl words a 401
_NOT_THE_WAY = ("Forbidden", "InternalError", "ServiceUnavailable", "Unknown")  # beside what is NotFound on the way


class Ran(NamedTuple):
    """A kubectl that has ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


class KubectlTransport:
    """`kubectl get --raw` per question; `create --raw` where a document is sent."""

    def __init__(self, connection: Connection, environ: Mapping[str, str], begun: Begun | None = None) -> None:
        """`begun`: where questions may be under way already."""
        self._connection = connection
        self._begun = begun or Begun()
        self._is_it_running = f"is it running?  kubectl -n {connection.service.namespace} get pods"
        self._kubectl = KubectlCommand(connection, environ)

    def get(self, path: str) -> dict[str, Any]:
        """The document at a path."""
        run = self._on_some_way(path, self._run)
        if not run.returncode:
            return document(run.stdout, "the decisions service")
        failure = self._failure(_said(run))
        if isinstance(failure, ServerError) and failure.reason == "NotFound":
            failure.details = _logged_details(_said(self._run(self._kubectl.on_the_way(path), _LOG_BODIES)))
        raise failure

    def post(self, path: str, document_: Json) -> dict[str, Any]:
        """The answer to a document, by `kubectl create --raw`."""
        run = self._on_some_way(path, lambda path: self._send(path, document_))
        if run.returncode:
            raise self._failure(_said(run), "create")
        return document(run.stdout, "the decisions service")

    def get_of_cluster(self, path: str) -> dict[str, Any]:
        """A document of the API server's own, not of the decisions service."""
        run = self._run(path)
        if run.returncode:
            raise self._failure(_said(run))
        return document(run.stdout, "the API server")

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """Yield the documents of a watch, one per line, without a time limit.

        Raises ConnectionFailedError when the connection breaks. A `get` must come first: it finds the way.
        """
        import subprocess  # here, because an answer needs less

        self._require_kubectl()
        command = self._kubectl.raw("get", self._kubectl.on_the_way(path))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            try:
                for line in process.stdout:
                    if line.endswith(b"\n"):  # otherwise the connection broke within the line
                        yield document(line, "the decisions service")
                said = process.stderr.read().decode("utf-8", "replace").strip()
            finally:
                process.kill()
        if process.returncode and said:
            failure = self._failure(said)
            if isinstance(failure, ServerError):
                raise failure
            raise ConnectionFailedError(failure.message, failure.hints)

    def proxy(self, socket: str) -> tuple[list[str], str]:
        """kubectl's command that passes on GET requests from a Unix socket, and the path before the API's on the way.

        What a proxy passes on was asked for before, and with it the way was found.
        """
        self._require_kubectl()
        within = self._kubectl.on_the_way(f"{questions.group()}/")
        limits = [
            f"--accept-paths=^{re.escape(within)}",
            "--reject-paths=^$",
            "--reject-methods=^(POST|PUT|PATCH|DELETE)$",
        ]
        command = self._kubectl.complete("proxy", f"--unix-socket={socket}", *limits)
        return command, self._kubectl.on_the_way("")

    def live_pod(self, namespace: str, pod: str) -> LivePod:
        """The question whether that pod is gone, or another one by now, under way."""
        return LivePod(self._beside(questions.live_pod(namespace, pod)))

    def unassigned_pods(self, namespace: str, labels: str) -> UnassignedPods:
        """The question which pods have no node, under way."""
        return UnassignedPods(self._beside(questions.unassigned_pods(namespace, labels=labels)))

    def node_zones(self, nodes: Sequence[str]) -> NodeZones:
        """The question in which zones these nodes are, under way."""
        return NodeZones(self._beside(questions.nodes_named(nodes)) if nodes else None)

    def _beside(self, path: str) -> Process | None:
        """A question to the API server, under way. What is wrong with kubectl the other question tells."""
        with suppress(OSError):
            return self._begun.take(self._kubectl.raw("get", path), alone=False) if self._kubectl.program else None
        return None

    def _on_some_way(self, path: str, ask: Callable[[str], Ran]) -> Ran:
        """What comes of a question by the way that is known, or by the first that leads to the service."""
        first = ask(self._kubectl.on_the_way(path))
        if self._kubectl.named or _leads_there(first):
            return first
        tried = {self._kubectl.way: first}

        def leads_there(way: str) -> bool:
            if way not in tried:
                tried[way] = ask(self._kubectl.by(way, path))
            return _leads_there(tried[way])

        ways = self._ways() or (self._kubectl.way,)
        self._kubectl.way = next(filter(leads_there, ways), ways[0])
        return tried[self._kubectl.way]

    def _ways(self) -> tuple[str, ...]:
        """Those that there may be, by whether there is an APIService; none where that cannot be found out."""
        run = self._run(questions.group())
        reason, words = _refusal(_said(run))
        if not run.returncode or reason == "ServiceUnavailable":  # it is there, its backend perhaps not
            return (API_SERVICE,)
        return (PROXY, PLAIN) if words == _ROUTE_UNKNOWN else ()

    def _send(self, path: str, document_: Json) -> Ran:
        command = self._kubectl.raw("create", path, "-f", "-")
        return self._done(lambda: start(command, sent=json.dumps(document_).encode()))

    def _run(self, path: str, *more: str) -> Ran:
        command = self._kubectl.raw("get", path, *more)
        return self._done(lambda: self._begun.take(command))

    def _done(self, process_of: Callable[[], Process]) -> Ran:
        """kubectl's end."""
        self._require_kubectl()
        timeout_s = self._connection.request_timeout_s
        try:
            process = process_of()
            try:
                return Ran(*process.output(timeout_s))
            finally:
                process.end()
        except TimeoutError:
            raise unreachable(
                f"kubectl: nothing within {timeout_s:g}s",
                [self._is_it_running, "wait longer: --request-timeout"],
            ) from None
        except OSError as e:
            raise CliError(f"error: cannot run kubectl ({self._kubectl.program}): {e.strerror}") from None

    def _require_kubectl(self) -> None:
        if not self._kubectl.program:
            raise CliError("error: kubectl is not on PATH", ["or ask the decisions service directly: --endpoint URL"])

    def _failure(self, said: str, verb: str = "get") -> CliError:
        """What kubectl's words mean, after a request that needs that verb."""
        service = self._connection.service
        reason, words = _refusal(said)
        if not reason:
            return self._not_from_a_server(said)
        if _no_service(reason, words):
            return unreachable(
                f"kubectl: {words}",
                [self._is_it_running, _ELSEWHERE],
            )
        if reason == "NotFound" and words == _ROUTE_UNKNOWN:
            return CliError(
                "error: the decisions service does not know this question",
                ["is it of another version?  kubectl herodotus version"],
            )
        if reason in ("ServiceUnavailable", "InternalError") and _from_proxy(words):
            named = f"--service {service.namespace}/http:{service.name}:{service.port}"
            plain = [f"it speaks plain HTTP: upgrade it, name its port plain-http, or ask with  {named}"]
            return unreachable(f"kubectl: {words}", [self._is_it_running, *plain * (_NO_TLS in words)])
        if reason == "Forbidden" and words.startswith("services "):
            needs = f"needed: {verb} on services/proxy, {service.scheme}:{service.name}:{service.port}"
            return ServerError(reason, words, hints=[f"{needs} in namespace {service.namespace}"])
        if reason == "Forbidden" and self._kubectl.way == API_SERVICE:
            return ServerError(reason, words, hints=[_NEEDED[verb]])
        return ServerError(reason, words)

    def _not_from_a_server(self, said: str) -> CliError:
        last = _last_line(said) or "it failed without a word"
        if last.startswith(_UNAUTHORIZED) and self._kubectl.named:
            return CliError(last, ["the service may ask who you are, which its proxy does not say: without --service"])
        if last.startswith("error: "):
            return CliError(last)
        return ConnectionFailedError(f"error: the API server did not answer (kubectl: {last})", _WHICH)


def _said(run: Ran) -> str:
    return run.stderr.decode("utf-8", "replace").strip()


def _refusal(said: str) -> tuple[str, str]:
    """Reason and message of the Status that kubectl prints; two empty texts where it prints something else."""
    match = _SERVER_ERROR.search(said)
    return (match[1] or "Unknown", match[2].strip()) if match else ("", "")


def _leads_there(run: Ran) -> bool:
    """Whether it is an answer, or an error that cannot be about the way.

    A service that asks for names refuses whoever comes through its proxy, which tells none.
    """
    said = _said(run)
    reason, words = _refusal(said)
    wrong = reason in _NOT_THE_WAY or words == _ROUTE_UNKNOWN or _no_service(reason, words)
    return not (run.returncode and (wrong or _last_line(said).startswith(_UNAUTHORIZED)))


def _last_line(said: str) -> str:
    return said.splitlines()[-1] if said else ""


def _no_service(reason: str, words: str) -> bool:
    return reason == "NotFound" and bool(re.match(r'(services|namespaces) "', words))


def _logged_details(log: str) -> Json:
    """The `details` of the last Status in kubectl's log; empty where the log shows none."""
    try:
        bodies = [json.loads(quoted) if quoted else plain for quoted, plain in _LOGGED_BODY.findall(log)]
        details = json.loads(bodies[-1])["details"]
    except (IndexError, KeyError, TypeError, ValueError):
        return {}
    return details if isinstance(details, dict) else {}


def _from_proxy(words: str) -> bool:
    """Whether an error is the API server's about the service, not the service's own."""
    return any(
        sign in words
        for sign in ("no endpoints available", "error trying to reach service", "currently unable to handle", "EOF")
    )
