"""The command lines of kubectl: its path, the user's credentials, and the route to the decisions service.

Owns: these. Does not own: running the commands (`prefetched_processes`), their results (`kubectl`), paths of requests
(`api_paths`), the route that worked in the last run (`route_cache`).

There are three routes behind the API server: its service proxy, which does not tell the service who the user is; the
proxy to a port without TLS, whose name says so; and an APIService, where each reader has rights. The path below is the
same. A request takes the cached route, at first the service proxy with TLS. A Service that the user names is always
reached through the proxy.

Invariant: kubectl gets its arguments as a list, never through a shell.
"""

from __future__ import annotations

import os

from herodotus_cli.connection import DEFAULT_SERVICE, PLAIN_HTTP_SERVICE
from herodotus_cli.transport.route_cache import RouteCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import ConnectionSettings

PROXY, PLAIN_HTTP_PROXY, API_SERVICE = "", "plain-http", "api-service"


class KubectlCommand:
    """Builds the kubectl command lines for one connection.

    `program` is kubectl's path, or "" if kubectl is not on PATH.
    """

    def __init__(self, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
        self._connection = connection
        self.program = environ.get("KUBECTL_PATH") or _on_path(environ, "kubectl")
        self.has_custom_service = connection.service.proxy_path != DEFAULT_SERVICE.proxy_path
        self._cache = RouteCache(connection, environ)
        self._route = PROXY if self.has_custom_service else self._cache.route

    @property
    def route(self) -> str:
        """The route of the next request to the service: service proxy, its port without TLS, or APIService.

        Setting it also caches it for later runs.
        """
        return self._route

    @route.setter
    def route(self, route: str) -> None:
        if route != self._route:
            self._route = self._cache.route = route

    def service_path(self, path: str) -> str:
        """Return the API server's path for a path of the decisions service, by the current route."""
        return self.path_by_route(self._route, path)

    def path_by_route(self, route: str, path: str) -> str:
        """Return the API server's path for a path of the decisions service, by the given route.

        `route` is PROXY, PLAIN_HTTP_PROXY or API_SERVICE.
        """
        if route == API_SERVICE:
            return path
        return (PLAIN_HTTP_SERVICE if route == PLAIN_HTTP_PROXY else self._connection.service).proxy_path + path

    def raw(self, verb: str, path: str, *more: str) -> list[str]:
        """Return the command line `kubectl VERB --raw PATH` for a path of the API server."""
        return self.complete(verb, "--raw", path, *more)

    def complete(self, *words: str) -> list[str]:
        """Return the kubectl command line with these words and the options for context, user, groups and kubeconfig."""
        c = self._connection
        command = [self.program, *words]
        command += [f"--context={c.context}"] * bool(c.context)
        command += [f"--as={c.as_user}"] * bool(c.as_user)
        command += [f"--as-group={group}" for group in c.as_groups]
        return command + [f"--kubeconfig={c.kubeconfig}"] * bool(c.kubeconfig)


def _on_path(environ: Mapping[str, str], program: str) -> str:
    """Return the path of a program, or "" if it is not on PATH. Importing `shutil.which` would take longer."""
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    found = (os.path.join(folder, program) for folder in folders)
    return next((path for path in found if os.access(path, os.X_OK) and os.path.isfile(path)), "")
