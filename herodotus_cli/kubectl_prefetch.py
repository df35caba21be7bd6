"""Starts kubectl for `pod NAME` before the command line is parsed.

kubectl takes as long to answer as Python takes to import click. So for the commonest command kubectl is started first,
from a simple reading of the arguments.

Owns: that reading. Does not own: the meaning of arguments (`commands`, `options`). The command takes the running
process if it sends the same request; otherwise the process is killed (`transport.prefetched_processes`).

Invariant: a wrong reading costs a process and never changes an answer; unusual arguments start nothing. This module and
its imports import nothing that Python has not loaded at start-up: kubectl would start later.
"""

from __future__ import annotations

from herodotus_cli import kubeconfig
from herodotus_cli.connection import ConnectionSettings
from herodotus_cli.errors import CliError
from herodotus_cli.transport import api_paths
from herodotus_cli.transport.kubectl_command import KubectlCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herodotus_cli.transport.prefetched_processes import PrefetchedProcesses

_OTHER_ADDRESS_VARIABLES = ("HERODOTUS_ENDPOINT", "HERODOTUS_SERVICE")
_OPTIONS_WITH_VALUE = {"-n": "-n", "--namespace": "-n", "--context": "--context", "--kubeconfig": "--kubeconfig"}
_OPTIONS_WITH_VALUE |= {"--node": "--node", "-o": "-o", "--output": "-o", "--color": "--color"}
_POD = ("pod", "pods", "po")
_FLAGS = ("--all", "--utc", "--no-headers")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


def prefetch(arguments: Sequence[str], environ: Mapping[str, str], prefetched: PrefetchedProcesses) -> None:
    """Start the kubectl processes that the command line `pod NAME` needs; do nothing for other or unusual ones.

    The processes are added to `prefetched`, from which the command takes them.
    """
    given = _read_arguments(arguments)
    if given is None or any(environ.get(name) for name in _OTHER_ADDRESS_VARIABLES):
        return
    connection = ConnectionSettings(context=given.get("--context", ""), kubeconfig=given.get("--kubeconfig", ""))
    try:
        namespace = given.get("-n") or kubeconfig.namespace(environ, connection.kubeconfig, connection.context)
    except CliError:  # the command reports it
        return
    if _NAME_CHARACTERS.issuperset(namespace):
        path = api_paths.pod_explanation(
            namespace, given["pod"], every_node="--all" in given, node=given.get("--node", "")
        )
        _start_requests(KubectlCommand(connection, environ), path, namespace, given["pod"], prefetched)


def _start_requests(
    kubectl: KubectlCommand, path: str, namespace: str, pod: str, prefetched: PrefetchedProcesses
) -> None:
    """Start kubectl twice: for `path` of the decisions service, and for the Pod object of the API server."""
    if kubectl.program:
        prefetched.start(kubectl.raw("get", kubectl.service_path(path)))
        prefetched.start(kubectl.raw("get", api_paths.cluster_pod(namespace, pod)), inherits_stdin=False)


def _read_arguments(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the options and the name of a command line `pod NAME`, or None for any other or unusual one.

    The keys are the options' names, such as `-n`, and `pod` for NAME.
    """
    given: dict[str, str] = {}
    words = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _OPTIONS_WITH_VALUE:
            given[_OPTIONS_WITH_VALUE[name]] = value if equals else next(rest, "")
        elif word in _FLAGS:
            given[word] = ""
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    if len(words) != 2 or words[0] not in _POD:
        return None
    given["pod"] = words[1].removeprefix("pod/")
    names = (given["pod"], given.get("--node", ""), given.get("-n", ""))
    return given if given["pod"] and all(map(_NAME_CHARACTERS.issuperset, names)) else None
