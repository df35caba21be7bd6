"""The contexts of the user's kubeconfig, and the namespace of the current one.

Owns: finding and merging kubeconfig files as kubectl does, the contexts, their namespaces. Does not own:
credentials; kubectl itself uses those.

Invariant: reads, never writes; of several files the first that sets a value wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from herodotus_cli.errors import CliError

DEFAULT_NAMESPACE = "default"


def namespace(environ: Mapping[str, str], kubeconfig: str = "", context: str = "") -> str:
    """Return the namespace of `context`, or of the current context if it is empty; `default` if none is set.

    Raises CliError if a kubeconfig file cannot be read or the context does not exist.
    """
    contexts, current = _merge(environ, kubeconfig)
    wanted = context or current
    if wanted and wanted not in contexts:
        raise CliError(f'error: context "{wanted}" does not exist')
    return contexts.get(wanted) or DEFAULT_NAMESPACE


def list_contexts(environ: Mapping[str, str], kubeconfig: str = "") -> list[str]:
    """Return the names of the contexts. Raises CliError if a kubeconfig file cannot be read."""
    return list(_merge(environ, kubeconfig)[0])


def _merge(environ: Mapping[str, str], kubeconfig: str) -> tuple[dict[str, str], str]:
    """Return the namespaces of the contexts by name, and the name of the current context; "" for those not set."""
    contexts: dict[str, str] = {}
    current = ""
    for path in files(environ, kubeconfig):
        config = _load(path, required=bool(kubeconfig))
        current = current or str(config.get("current-context") or "")
        for name, its_namespace in _contexts(config, path):
            contexts.setdefault(name, its_namespace)
    return contexts, current


def files(environ: Mapping[str, str], kubeconfig: str) -> list[str]:
    """Return the paths of the kubeconfig files to merge, of which some may not exist.

    These are `kubeconfig` if it is given, else those in the variable KUBECONFIG, else ~/.kube/config.
    """
    if kubeconfig:
        return [kubeconfig]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    return listed or ([os.path.join(home, ".kube", "config")] if home else [])


def _load(path: str, *, required: bool) -> Mapping[str, Any]:
    """Return the parsed content of a kubeconfig file, or {} if it does not exist and is not `required`.

    Raises CliError if it is required and missing, unreadable or not a kubeconfig.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        if required:
            raise CliError(f"error: kubeconfig {path}: no such file") from None
        return {}
    except (OSError, UnicodeDecodeError) as e:
        raise CliError(f"error: kubeconfig {path}: {getattr(e, 'strerror', None) or 'not a text file'}") from None
    config = _parse(text, path)
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise CliError(f"error: kubeconfig {path}: not a kubeconfig (a mapping is expected)")
    return config


def _parse(text: str, path: str) -> Any:
    import yaml  # here, because it takes 20 ms that a run with --namespace does not need

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        location = f" (line {mark.line + 1})" if mark else ""
        raise CliError(f"error: kubeconfig {path}: not valid YAML{location}") from None


def _contexts(config: Mapping[str, Any], path: str) -> list[tuple[str, str]]:
    """Return a (name, namespace) pair for each context in a parsed kubeconfig; a missing namespace is "".

    Raises CliError, which names `path`, if the contexts have a wrong form.
    """
    entries = config.get("contexts") or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise CliError(f"error: kubeconfig {path}: contexts is not a list of contexts")
    pairs = []
    for entry in entries:
        name, settings = str(entry.get("name")), entry.get("context") or {}
        if not isinstance(settings, dict):
            raise CliError(f"error: kubeconfig {path}: context {name} is not a mapping")
        pairs.append((name, str(settings.get("namespace") or "")))
    return pairs
