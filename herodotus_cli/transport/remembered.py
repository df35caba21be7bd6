"""For which kubeconfigs the decisions service is behind an APIService, remembered between runs.

Owns: that memory, an empty file for each such kubeconfig in kubectl's cache folder. Does not own: finding it out
(`kubectl`).

Invariant: what is remembered saves a question and decides nothing: it may be wrong, missing or unwritable.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from herodotus_cli import kubeconfig
from herodotus_cli.options import Connection

_MOST = 64  # kubeconfigs; one whose content changes is another one


class Remembered:
    """What is known of the kubeconfig and context of one connection."""

    def __init__(self, connection: Connection, environ: Mapping[str, str]) -> None:
        home = environ.get("HOME") or environ.get("USERPROFILE") or ""
        cache = environ.get("KUBECACHEDIR") or (f"{home}/.kube/cache" if home else "")
        self._folder = Path(cache, "herodotus") if cache else None
        self._connection, self._environ = connection, environ

    @property
    def api_service(self) -> bool:
        """Whether there was an APIService when it was last looked for."""
        with suppress(OSError):
            return bool(self._folder) and self._file().exists()
        return False

    @api_service.setter
    def api_service(self, there: bool) -> None:
        if self._folder is None:
            return
        with suppress(OSError):
            file = self._file()
            if not there:
                file.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            file.touch()
            for old in sorted(self._folder.iterdir(), key=lambda f: f.stat().st_mtime, reverse=True)[_MOST:]:
                old.unlink(missing_ok=True)

    def _file(self) -> Path:
        """Named by what the files of the kubeconfig say now, the current context among it, and by the context given."""
        assert self._folder
        said = [self._connection.context.encode()]
        for path in kubeconfig.files(self._environ, self._connection.kubeconfig):
            with suppress(OSError):
                said.append(path.read_bytes())
        return self._folder / f"api-service-{zlib.crc32(bytes(1).join(said)):08x}"
