"""The commonest question, under way before the command line is understood.

kubectl needs as long to answer as Python needs to import what reads options. So for `pod NAME` it is started first, by
a guess at what the words mean.

Owns: the guess. Does not own: what the words mean (`commands`, `options`). Whoever comes to the same question finds
kubectl at work; a question that nobody comes to is ended (`transport.begun`).

Invariant: a guess that is wrong costs a process, never an answer; what is not plain is not guessed at. Nothing that is
imported here, or by what is, imports anything that Python has not loaded by itself: kubectl would wait for it.
"""

from __future__ import annotations

from herodotus_cli import kubeconfig
from herodotus_cli.connection import Connection
from herodotus_cli.errors import CliError
from herodotus_cli.transport import questions
from herodotus_cli.transport.kubectl_command import KubectlCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herodotus_cli.transport.begun import Begun

_ELSEWHERE = ("HERODOTUS_ENDPOINT", "HERODOTUS_SERVICE")
_VALUES = {"-n": "-n", "--namespace": "-n", "--context": "--context", "--kubeconfig": "--kubeconfig"}
_VALUES |= {"--node": "--node", "-o": "-o", "--output": "-o", "--color": "--color"}
_FLAGS = ("--all", "--utc", "--no-headers")
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


def begin(arguments: Sequence[str], environ: Mapping[str, str], begun: Begun) -> None:
    """Starts what `pod NAME` with its plainest options will ask; nothing for another command line."""
    given = _read(arguments)
    if given is None or any(environ.get(name) for name in _ELSEWHERE):
        return
    connection = Connection(context=given.get("--context", ""), kubeconfig=given.get("--kubeconfig", ""))
    try:
        namespace = given.get("-n") or kubeconfig.namespace(environ, connection.kubeconfig, connection.context)
    except CliError:  # told by those who understand the command line
        return
    if _SAFE.issuperset(namespace):
        path = questions.pod_explanation(
            namespace, given["pod"], every_node="--all" in given, node=given.get("--node", "")
        )
        _begin(KubectlCommand(connection, environ), path, namespace, given["pod"], begun)


def _begin(kubectl: KubectlCommand, path: str, namespace: str, pod: str, begun: Begun) -> None:
    """Sends the question, and beside it the one for the pod that exists."""
    if kubectl.program:
        begun.begin(kubectl.raw("get", kubectl.on_the_way(path)))
        begun.begin(kubectl.raw("get", questions.live_pod(namespace, pod)), alone=False)


def _read(arguments: Sequence[str]) -> dict[str, str] | None:
    """The options and the `pod` of a plain command line; None for another."""
    given: dict[str, str] = {}
    words = []
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _VALUES:
            given[_VALUES[name]] = value if equals else next(rest, "")
        elif word in _FLAGS:
            given[word] = ""
        elif word.startswith("-"):
            return None
        else:
            words.append(word)
    if len(words) != 2 or words[0] != "pod":
        return None
    given["pod"] = words[1].removeprefix("pod/")
    names = (given["pod"], given.get("--node", ""), given.get("-n", ""))
    return given if given["pod"] and all(map(_SAFE.issuperset, names)) else None
