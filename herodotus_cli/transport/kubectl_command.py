"""kubectl's command lines: where it is, with whose credentials it asks, the way behind the API server.

Owns: these. Does not own: running them (`begun`), what comes of them (`kubectl`), what is asked (`questions`), what is
known of the way between runs (`remembered`).

There are two ways behind the API server: its service proxy, which tells the service nothing of who asks, and an
APIService, through which every reader has rights of their own. The path within is the same. A question takes the way
that is remembered, at first the service proxy. A Service that the user names is meant, and asked through the proxy.

Invariant: kubectl gets its arguments as a list, never through a shell.
"""

from __future__ import annotations

import os

from herodotus_cli.connection import SERVICE
from herodotus_cli.transport.remembered import Remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import Connection


class KubectlCommand:
    """kubectl as one connection has it. `program`: its path; empty where there is none."""

    def __init__(self, connection: Connection, environ: Mapping[str, str]) -> None:
        self._connection = connection
        self.program = environ.get("KUBECTL_PATH") or _on_path(environ, "kubectl")
        self.named = connection.service.proxy_path != SERVICE.proxy_path
        self._remembered = Remembered(connection, environ)
        self._api_service = not self.named and self._remembered.api_service

    @property
    def api_service(self) -> bool:
        """Whether the way is the APIService. Set: from now on, and remembered."""
        return self._api_service

    @api_service.setter
    def api_service(self, there: bool) -> None:
        self._api_service = self._remembered.api_service = there

    def on_the_way(self, path: str) -> str:
        """A path of the decisions service as the API server's."""
        return path if self._api_service else self._connection.service.proxy_path + path

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
