"""The route that last worked for each kubeconfig, kept between runs.

Owns: a file per kubeconfig and context whose route is not the default one, in kubectl's cache folder. Does not own: the
routes (`kubectl_command`), finding the one that works (`kubectl`).

Invariant: a cached route only saves requests; it may be wrong, missing or unwritable.
"""

from __future__ import annotations

import os

from herodotus_cli import kubeconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import ConnectionSettings

_MAX_FILES = 64  # a kubeconfig whose content changes gets another file
_MAX_LENGTH = 64  # characters of a route's name


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
        import zlib  # here, because it is needed only if a route is cached

        content = [self._connection.context.encode()]
        for path in kubeconfig.files(self._environ, self._connection.kubeconfig):
            try:
                with open(path, "rb") as file:
                    content.append(file.read())
            except OSError:
                continue
        return os.path.join(self._folder, f"way-{zlib.crc32(bytes(1).join(content)):08x}")
