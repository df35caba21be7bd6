"""The command lines of kubectl: its path, the user's credentials, and the route to the decisions service.

Owns: these, starting and ending kubectl, and the route that last worked for each kubeconfig and context, in a file of
kubectl's cache folder unless it is the default one. Does not own: the results (`kubectl`), paths of requests
(`herodotus_client.api_paths`).

There are three routes behind the API server: its service proxy, which does not tell the service who the user is; the
proxy to a port without TLS, whose name says so; and an APIService, where each reader has rights. The path below is the
same. A request takes the cached route, at first the service proxy with TLS. A Service that the user names is always
reached through the proxy.

Invariant: kubectl gets its arguments as a list, never through a shell. A cached route only saves requests, two of
three; it may be wrong, missing or unwritable.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from herodotus_cli import kubeconfig
from herodotus_cli.connection import DEFAULT_SERVICE, PLAIN_HTTP_SERVICE, ConnectionSettings

PROXY, PLAIN_HTTP_PROXY, API_SERVICE = "", "plain-http", "api-service"
_MAX_FILES = 64  # of cached routes; a kubeconfig whose content changes gets another file
_MAX_LENGTH = 64  # characters of a route's name
# kubectl spends a fifth of its time on collecting garbage while it sets up its commands, and finds none.
_VARIABLES = {"GOGC": "400"}


class KubectlCommand:
    """Builds the kubectl command lines for one connection.

    `program` is kubectl's path, or "" if kubectl is not on PATH.
    """

    def __init__(self, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
        self._connection = connection
        self.program = environ.get("KUBECTL_PATH") or _find_on_path(environ, "kubectl")
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


class RouteCache:
    """The route to the decisions service that last worked for one kubeconfig and context, kept in a file."""

    def __init__(self, connection: ConnectionSettings, environ: Mapping[str, str]) -> None:
        home = environ.get("HOME") or environ.get("USERPROFILE") or ""
        cache = environ.get("KUBECACHEDIR") or (f"{home}/.kube/cache" if home else "")
        self._folder = os.path.join(cache, "herodotus") if cache else ""
        self._connection, self._environ = connection, environ

    @property
    def route(self) -> str:
        """The route that last reached the decisions service; "" for the default route or if none is cached.

        Setting it writes the file, or deletes the file for the default route.
        """
        if not os.path.isdir(self._folder):
            return ""
        try:
            with open(self._file(), encoding="utf-8") as file:
                return file.read(_MAX_LENGTH)
        except (OSError, ValueError):
            return ""

    @route.setter
    def route(self, route: str) -> None:
        if not self._folder:
            return
        try:
            self._write(route) if route else os.unlink(self._file())
        except OSError:
            return

    def _write(self, route: str) -> None:
        os.makedirs(self._folder, exist_ok=True, mode=0o750)
        with open(self._file(), "w", encoding="utf-8") as file:
            file.write(route)
        newest_first = sorted(os.scandir(self._folder), key=lambda f: f.stat().st_mtime, reverse=True)
        for old in newest_first[_MAX_FILES:]:
            os.unlink(old)

    def _file(self) -> str:
        """Return the path of the cache file, named by a checksum of the context and the kubeconfig files' content."""
        import zlib  # here, because most users need no cached route

        content = [self._connection.context.encode()]
        for path in kubeconfig.files(self._environ, self._connection.kubeconfig):
            try:
                with open(path, "rb") as file:
                    content.append(file.read())
            except OSError:
                continue
        return os.path.join(self._folder, f"way-{zlib.crc32(bytes(1).join(content)):08x}")


def _find_on_path(environ: Mapping[str, str], program: str) -> str:
    """Return the path of a program, or "" if it is not on PATH. Importing `shutil` would take 2 ms."""
    paths = (os.path.join(folder, program) for folder in environ.get("PATH", os.defpath).split(os.pathsep))
    return next((path for path in paths if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def start_process(
    command: Sequence[str], *, inherits_stdin: bool = True, has_input: bool = False
) -> subprocess.Popen[bytes]:
    """Start a command whose outputs are read through pipes. Raises OSError if it cannot be started.

    Its standard input is a pipe with `has_input`, the parent's with `inherits_stdin`, and otherwise empty. With the
    parent's, a credential plugin of kubectl can prompt the user; only one process at a time may do so.
    """
    stdin = subprocess.PIPE if has_input else None if inherits_stdin else subprocess.DEVNULL
    environ = _VARIABLES | dict(os.environ)
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and wait for it. Its output is not read to the end: a child of kubectl may hold it open."""
    with process:
        process.kill()
