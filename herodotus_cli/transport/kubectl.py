"""Through the API server's service proxy, with kubectl as the client: it knows every kind of credential.

Owns: kubectl's command line, and the meaning of what kubectl prints when it fails. Does not own: what is asked.

kubectl prints a Status as `Error from server (Reason): message` and drops what else it holds. Its `details` name
similar pods, which is what helps after a typing error: so a NotFound is asked once more with kubectl's log of response
bodies. A kubectl that logs in another form costs those hints, nothing else.

The time limit is kept here: kubectl's own --request-timeout becomes a query parameter, which the proxy would forward.

Invariant: kubectl gets its arguments as a list, never through a shell; its log is read, never shown.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Generator, Mapping
from typing import Any

from herodotus_cli.errors import CliError, Json, ServerError, unreachable
from herodotus_cli.options import Connection
from herodotus_cli.transport import questions
from herodotus_cli.transport.body import document
from herodotus_cli.transport.live import LivePod

_SERVER_ERROR = re.compile(r"Error from server(?: \((\w+)\))?: (.*)", re.DOTALL)
# as kubectl 1.32 logs a body, and as those before did
_LOGGED_BODY = re.compile(r'"Response Body" body=("(?:[^"\\]|\\.)*")|Response Body: (\{.*\})')
_LOG_BODIES = "-v=10"  # below that kubectl cuts them
_ROUTE_UNKNOWN = "the server could not find the requested resource"


class KubectlTransport:
    """`kubectl get --raw` per question."""

    def __init__(self, connection: Connection, environ: Mapping[str, str]) -> None:
        self._connection = connection
        self._is_it_running = f"is it running?  kubectl -n {connection.service.namespace} get pods"
        self._kubectl = environ.get("KUBECTL_PATH") or shutil.which("kubectl", path=environ.get("PATH"))

    def get(self, path: str) -> dict[str, Any]:
        """The document at a path, through the proxy."""
        proxied = self._connection.service.proxy_path + path
        run = self._run(proxied)
        if not run.returncode:
            return document(run.stdout, "the decisions service")
        failure = self._failure(run.stderr.decode("utf-8", "replace").strip())
        if isinstance(failure, ServerError) and failure.reason == "NotFound":
            failure.details = _logged_details(self._run(proxied, _LOG_BODIES).stderr.decode("utf-8", "replace"))
        raise failure

    def get_of_cluster(self, path: str) -> dict[str, Any]:
        """A document of the API server's own, not of the decisions service."""
        run = self._run(path)
        if run.returncode:
            raise self._failure(run.stderr.decode("utf-8", "replace").strip())
        return document(run.stdout, "the API server")

    def stream(self, path: str) -> Generator[dict[str, Any], None, None]:
        """The documents that come, one a line. Without a time limit: nothing happening is no failure."""
        self._require_kubectl()
        command = self._command(self._connection.service.proxy_path + path)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stderr
            try:
                for line in process.stdout:
                    yield document(line, "the decisions service")
                said = process.stderr.read().decode("utf-8", "replace").strip()
            finally:
                process.kill()
        if process.returncode and said:
            raise self._failure(said)

    def live_pod(self, namespace: str, pod: str) -> LivePod:
        """The question whether that pod is another one by now, under way."""
        return LivePod(self._command(questions.live_pod(namespace, pod)) if self._kubectl else ())

    def _run(self, path: str, *more: str) -> subprocess.CompletedProcess[bytes]:
        self._require_kubectl()
        c = self._connection
        command = self._command(path, *more)
        try:
            return subprocess.run(command, capture_output=True, check=False, timeout=c.request_timeout_s or None)
        except subprocess.TimeoutExpired:
            raise unreachable(
                f"kubectl: nothing within {c.request_timeout_s:g}s",
                [self._is_it_running, "wait longer: --request-timeout"],
            ) from None
        except OSError as e:
            raise CliError(f"error: cannot run kubectl ({self._kubectl}): {e.strerror}") from None

    def _require_kubectl(self) -> None:
        if not self._kubectl:
            raise CliError("error: kubectl is not on PATH", ["or ask the decisions service directly: --endpoint URL"])

    def _command(self, path: str, *more: str) -> list[str]:
        c = self._connection
        command = [self._kubectl or "", "get", "--raw", path, *more]
        command += [f"--context={c.context}"] * bool(c.context)
        command += [f"--as={c.as_user}"] * bool(c.as_user)
        command += [f"--as-group={group}" for group in c.as_groups]
        return command + [f"--kubeconfig={c.kubeconfig}"] * bool(c.kubeconfig)

    def _failure(self, said: str) -> CliError:
        """What kubectl's words mean."""
        service = self._connection.service
        match = _SERVER_ERROR.search(said)
        if not match:
            return self._not_from_a_server(said)
        reason, words = match[1] or "Unknown", match[2].strip()
        if reason == "NotFound" and re.match(r'(services|namespaces) "', words):
            return unreachable(
                f"kubectl: {words}",
                [self._is_it_running, "is it elsewhere?  --service NAMESPACE/NAME:PORT or --endpoint URL"],
            )
        if reason == "NotFound" and words == _ROUTE_UNKNOWN:
            return CliError(
                "error: the decisions service does not know this question",
                ["is it of another version?  kubectl herodotus version"],
            )
        if reason in ("ServiceUnavailable", "InternalError") and _from_proxy(words):
            return unreachable(f"kubectl: {words}", [self._is_it_running])
        if reason == "Forbidden" and "services" in words:
            needs = f"needed: get on services/proxy, {service.scheme}:{service.name}:{service.port}"
            return ServerError(reason, words, hints=[f"{needs} in namespace {service.namespace}"])
        return ServerError(reason, words)

    def _not_from_a_server(self, said: str) -> CliError:
        last = said.splitlines()[-1] if said else "it failed without a word"
        if last.startswith("error: "):
            return CliError(last)
        return CliError(f"error: the API server did not answer (kubectl: {last})")


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
