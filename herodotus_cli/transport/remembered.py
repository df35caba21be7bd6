"""By which way the decisions service was found behind each API server, remembered between runs.

Owns: that memory, a file for each kubeconfig whose way is not the usual one, in kubectl's cache folder. Does not own:
the ways (`kubectl_command`), finding one (`kubectl`).

Invariant: what is remembered saves a question and decides nothing: it may be wrong, missing or unwritable.
"""

from __future__ import annotations

import os

from herodotus_cli import kubeconfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from herodotus_cli.connection import Connection

_MOST = 64  # kubeconfigs; one whose content changes is another one
_LONGEST = 64  # characters of a way's name


class Remembered:
    """What is known of the kubeconfig and context of one connection."""

    def __init__(self, connection: Connection, environ: Mapping[str, str]) -> None:
        home = environ.get("HOME") or environ.get("USERPROFILE") or ""
        cache = environ.get("KUBECACHEDIR") or (f"{home}/.kube/cache" if home else "")
        self._folder = os.path.join(cache, "herodotus") if cache else ""
        self._connection, self._environ = connection, environ

    @property
    def way(self) -> str:
        """The way that was found last; empty for the usual one, and where none is known."""
        if not os.path.isdir(self._folder):
            return ""
        try:
            with open(self._file(), encoding="utf-8") as file:
                return file.read(_LONGEST)
        except (OSError, ValueError):
            return ""

    @way.setter
    def way(self, way: str) -> None:
        if not self._folder:
            return
        try:
            self._remember(way) if way else os.unlink(self._file())
        except OSError:
            return

    def _remember(self, way: str) -> None:
        os.makedirs(self._folder, exist_ok=True, mode=0o750)
        with open(self._file(), "w", encoding="utf-8") as file:
            file.write(way)
        remembered = sorted(os.scandir(self._folder), key=lambda f: f.stat().st_mtime, reverse=True)
        for old in remembered[_MOST:]:
            os.unlink(old)

    def _file(self) -> str:
        """Named by what the files of the kubeconfig say now, the current context among it, and by the context given."""
        import zlib  # here, because it is needed only where something is remembered

        said = [self._connection.context.encode()]
        for path in kubeconfig.files(self._environ, self._connection.kubeconfig):
            try:
                with open(path, "rb") as file:
                    said.append(file.read())
            except OSError:
                continue
        return os.path.join(self._folder, f"way-{zlib.crc32(bytes(1).join(said)):08x}")
