"""The API server's address and credentials: kubeconfig, in-cluster service account, or `--master URL`.

The kubernetes package reads them, exec plugins and token refresh included. Nothing else of that package is imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from kubernetes.client import Configuration


class KubeconfigError(Exception):
    """The address or the credentials of an API server are missing or unusable. The message is one line."""


@dataclass(frozen=True)
class Credentials:
    """The URL of an API server, the TLS context for it, and a function that returns the current request headers.

    `tls` is None for a URL with http.
    """

    url: str
    tls: ssl.SSLContext | None
    headers: Callable[[], dict[str, str]]


def find_credentials(
    *, kubeconfig: str | None = None, context: str | None = None, master: str | None = None, in_cluster: bool = False
) -> Credentials:
    """Return credentials from the arguments, `KUBECONFIG`, the pod's service account or ~/.kube/config.

    The first source that is present wins. `in_cluster` selects the service account. Raises KubeconfigError if no source
    is usable.
    """
    if master and not kubeconfig and not context:
        if not _is_url(master):
            raise KubeconfigError(f"--master {master}: expected a URL such as http://127.0.0.1:8001")
        return Credentials(master.rstrip("/"), ssl.create_default_context() if _https(master) else None, dict)
    named = kubeconfig or context or os.environ.get("KUBECONFIG")
    in_cluster = in_cluster or (not named and "KUBERNETES_SERVICE_HOST" in os.environ)
    # Processor time that the shipper and `evaluate` can do without: 0.02 s, and 0.1 s for a kubeconfig.
    with _skip_package_inits("kubernetes", "kubernetes.config"):
        from kubernetes.client import Configuration
        from kubernetes.config.config_exception import ConfigException

        if in_cluster:
            from kubernetes.config.incluster_config import load_incluster_config
        else:
            from kubernetes.config.kube_config import load_kube_config

    config = Configuration()
    try:
        if in_cluster:
            load_incluster_config(client_configuration=config)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(config_file=kubeconfig or None, context=context, client_configuration=config)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as e:
        raise KubeconfigError(_format_error(e, kubeconfig, context)) from e
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as e:  # whatever is in the file
        path = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        raise KubeconfigError(f"{path} is not a kubeconfig: {' '.join(str(e).split())[:200]}") from e
    url = str(master or config.host).rstrip("/")
    if not _is_url(url):
        raise KubeconfigError(f"the kubeconfig's server {url!r} is not a URL such as https://127.0.0.1:6443")
    return Credentials(url, _tls(config) if _https(url) else None, lambda: _headers(config))


@contextmanager
def _skip_package_inits(*packages: str) -> Iterator[None]:
    """Context manager in which submodules of the packages can be imported without running the packages' `__init__`.

    Outer packages come first. The purpose is a faster start: the `__init__` of the kubernetes package imports
    everything, which takes another second, and that of its `config` all sources of credentials. Packages that are
    already imported stay. Raises ModuleNotFoundError if a package is not installed.
    """
    bare = []
    try:
        for package in packages:
            if package in sys.modules:
                continue
            spec = importlib.util.find_spec(package)
            if spec is None:
                raise ModuleNotFoundError(name=package)
            sys.modules[package] = importlib.util.module_from_spec(spec)
            bare.append(package)
        yield
    finally:
        for package in bare:
            del sys.modules[package]  # who imports it from now on gets the whole


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not re.search(r"\s", text)
            and parts.port != 0
        )
    except ValueError:  # a port that is no number
        return False


def _https(url: str) -> bool:
    return url.startswith("https://")


def _headers(config: Configuration) -> dict[str, str]:
    token = config.get_api_key_with_prefix("BearerToken", alias="authorization")  # refreshes an expiring token
    return {"Authorization": token} if token else {}


def _tls(config: Configuration) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=config.ssl_ca_cert)
        if config.cert_file:
            tls.load_cert_chain(config.cert_file, config.key_file)
    except (OSError, ssl.SSLError) as e:
        raise KubeconfigError(f"cannot load the certificates of the kubeconfig: {e}") from e
    if not config.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _format_error(e: Exception, kubeconfig: str | None, context: str | None) -> str:
    message = " ".join(str(e).split())
    if context and "context" in message.lower():
        return f'context "{context}" does not exist in the kubeconfig'
    prefix = f"kubeconfig {kubeconfig}: " if kubeconfig else "no usable kubeconfig: "
    return f"{prefix}{message}"
