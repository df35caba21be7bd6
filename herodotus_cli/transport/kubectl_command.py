"""kubectl's command lines: where it is, with whose credentials it asks, the way behind the API server.

Owns: these. Does not own: running them (`begun`), what comes of them (`kubectl`), what is asked (`questions`), what is
known of the way between runs (`remembered`).

There are three ways behind the API server: its service proxy, which tells the service nothing of who asks; the same
without TLS behind it, to a port whose name says so; and an APIService, through which every reader has rights of their
own. The path within is the same. A question takes the way that is remembered, at first the service proxy with TLS. A
Service that the user names is meant, and asked through the proxy.

Invariant: kubectl gets its arguments as a list, never through a shell.
"""

from __future__ import annotations

import os

from herodotus_cli.connection import PLAIN_SERVICE, SERVICE
from herodotus_cli.transport.remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import Connection

PROXY, PLAIN, API_SERVICE = "", "plain-http", "api-service"


class KubectlCommand:
    """kubectl as one connection has it. `program`: its path; empty where there is none."""

    def __init__(self, connection: Connection, environ: Mapping[str, str]) -> None:
        self._connection = connection
        self.program = environ.get("KUBECTL_PATH") or _on_path(environ, "kubectl")
        self.named = connection.service.proxy_path != SERVICE.proxy_path
        self._remembered = Remembered(connection, environ)
        self._way = PROXY if self.named else self._remembered.way

    @property
    def way(self) -> str:
        """The way that is taken. Set: from now on, and remembered."""
        return self._way

    @way.setter
    def way(self, way: str) -> None:
        if way != self._way:
            self._way = self._remembered.way = way

    def on_the_way(self, path: str) -> str:
        """A path of the decisions service as the API server's."""
        return self.by(self._way, path)

    def by(self, way: str, path: str) -> str:
        """The same by another way."""
        if way == API_SERVICE:
            return path
        return (PLAIN_SERVICE if way == PLAIN else self._connection.service).proxy_path + path

    def raw(self, verb: str, path: str, *more: str) -> list[str]:
        """The command that does that with a path of the API server's."""
        return self.complete(verb, "--raw", path, *more)

    def complete(self, *words: str) -> list[str]:
        """A command with whose credentials it is to be done."""
        c = self._connection
        command = [self.program, *words]
        command += [f"--context={c.context}"] * bool(c.context)
        command += [f"--as={c.as_user}"] * bool(c.as_user)
        command += [f"--as-group={group}" for group in c.as_groups]
        return command + [f"--kubeconfig={c.kubeconfig}"] * bool(c.kubeconfig)


def _on_path(environ: Mapping[str, str], program: str) -> str:
    """Where a program is; empty where it is not. As `shutil.which`, which takes longer to import than to ask."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    found = (os.path.join(folder, program) for folder in folders)
    return next((path for path in found if os.access(path, os.X_OK) and os.path.isfile(path)), "")
