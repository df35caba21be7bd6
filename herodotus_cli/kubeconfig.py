"""The namespace that the user's kubeconfig names.

Owns: finding and merging kubeconfig files as kubectl does, the current context, its namespace. Does not own:
credentials; kubectl itself uses those.

Invariant: reads, never writes; the first file that says something wins.
"""

from __future__ import annotations

import os

from herodotus_cli import plain_kubeconfig
from herodotus_cli.errors import CliError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_NAMESPACE = "default"


def namespace(environ: Mapping[str, str], kubeconfig: str = "", context: str = "") -> str:
    """The namespace of `context`, or of the current context; `default` where no file or context names one."""
    contexts: dict[str, str] = {}
    current = ""
    for path in files(environ, kubeconfig):
        config = _load(path, required=bool(kubeconfig))
        current = current or str(config.get("current-context") or "")
        for name, its_namespace in _contexts(config, path):
            contexts.setdefault(name, its_namespace)
    wanted = context or current
    if wanted and wanted not in contexts:
        raise CliError(f'error: context "{wanted}" does not exist')
    return contexts.get(wanted) or DEFAULT_NAMESPACE


def files(environ: Mapping[str, str], kubeconfig: str) -> list[str]:
    """The files to be merged, those that may be missing too."""
    if kubeconfig:
        return [kubeconfig]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    return listed or ([os.path.join(home, ".kube", "config")] if home else [])


def _load(path: str, *, required: bool) -> Mapping[str, Any]:
    """One file's content. A file that is only looked for may be missing, as with kubectl."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        if required:
            raise CliError(f"error: kubeconfig {path}: no such file") from None
        return {}
    except (OSError, UnicodeDecodeError) as e:
        raise CliError(f"error: kubeconfig {path}: {getattr(e, 'strerror', None) or 'not a text file'}") from None
    config = plain_kubeconfig.read(text) or _parse(text, path)
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise CliError(f"error: kubeconfig {path}: not a kubeconfig (a mapping is expected)")
    return config


def _parse(text: str, path: str) -> Any:
    import yaml  # here, because it costs 20 ms that many runs do not need

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise CliError(f"error: kubeconfig {path}: not valid YAML{where}") from None


def _contexts(config: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    """Names of contexts with their namespaces."""
    entries = config.get("contexts") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CliError(f"error: kubeconfig {path}: contexts is not a list of contexts")
    found = []
    for entry in entries:
        name, settings = str(entry.get("name")), entry.get("context") or {}
        if not isinstance(settings, dict):
            raise CliError(f"error: kubeconfig {path}: context {name} is not a mapping")
        found.append((name, str(settings.get("namespace") or "")))
    return found
