"""Delegated authentication and authorization: the clients and caches of a worker, built from flags.

Owns: building them and connecting them. Does not own: the parts (`access`), flags (`options`).

Invariant: a worker creates them after the fork, because connections and threads do not survive one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from herodotus_endpoint.access.authorization import ReviewCache
from herodotus_endpoint.access.front_proxy import FrontProxy, FrontProxyWatcher, read_front_proxy
from herodotus_endpoint.access.guard import AccessControl
from herodotus_endpoint.access.identity import Authenticator
from herodotus_endpoint.access.senders import SenderAuthenticator
from herodotus_kube.client import KubeClient, KubeError
from herodotus_kube.credentials import KubeconfigError, find_credentials

if TYPE_CHECKING:
    from herodotus_endpoint.settings import ServiceSettings

USER_AGENT = "herodotus-endpoint"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"  # its UID names the cluster in every record


@dataclass(frozen=True)
class DelegationOptions:
    """Options of delegated authentication and authorization.

    `senders` maps each sender of records to its cluster; "" is the API server's own cluster. `certified`: senders
    authenticate with certificates instead of tokens. `audience`: the required audience of tokens. `front_proxy`: its
    settings at the start. `cluster`: the API server's cluster, "" before `resolve_delegation`.
    """

    kubeconfig: str = ""
    aggregated_api: bool = False
    senders: Mapping[str, str] = field(default_factory=dict)
    certified: bool = False
    audience: str = ""
    front_proxy: FrontProxy = field(default_factory=FrontProxy)
    cluster: str = ""

    @property
    def needs_api_server(self) -> bool:
        """Whether any of the options needs an API server."""
        return self.aggregated_api or "" in self.senders.values() or bool(self.senders and not self.certified)


def resolve_delegation(delegation: DelegationOptions) -> DelegationOptions:
    """Return the options completed with the cluster and the front proxy that the API server reports.

    This happens before the first connection is accepted, because a connection accepted without requesting a client
    certificate never has one. Raises KubeconfigError if the API server does not answer.
    """
    if not delegation.needs_api_server:
        return delegation
    api = KubeClient(find_credentials(kubeconfig=delegation.kubeconfig), USER_AGENT)
    try:
        own = str(api.get(KUBE_SYSTEM)["metadata"]["uid"])
        senders = {name: cluster or own for name, cluster in delegation.senders.items()}
        front_proxy = read_front_proxy(api) if delegation.aggregated_api else FrontProxy()
    except (KubeError, KeyError, TypeError) as e:
        raise KubeconfigError(f"the API server does not say what is needed to serve: {e}") from e
    finally:
        api.close()
    if delegation.aggregated_api and not front_proxy.authority:
        raise KubeconfigError("the API server has no front proxy: its --requestheader-client-ca-file is not set")
    return replace(delegation, senders=senders, front_proxy=front_proxy, cluster=own)


def open_delegation(
    settings: ServiceSettings, delegation: DelegationOptions, client_authority: Callable[[], str]
) -> tuple[Any, Callable[[], Sequence[str]]]:
    """Return the settings with access control added, and a function for the authorities that TLS trusts in addition."""
    rights = None
    if delegation.needs_api_server:
        api = KubeClient(find_credentials(kubeconfig=delegation.kubeconfig), USER_AGENT)
        rights = ReviewCache(api)
    settings = replace(settings, cluster=delegation.cluster)
    authorities: Callable[[], Sequence[str]] = tuple
    if delegation.aggregated_api and rights is not None:
        published = FrontProxyWatcher(api, delegation.front_proxy)
        published.start()
        access = AccessControl(Authenticator(rights, lambda: published.known), rights)
        settings = replace(settings, access=access)
        authorities = lambda: (published.known.authority,)  # noqa: E731 - a name for it says no more
    if delegation.senders:
        tokens = None if delegation.certified else rights
        senders = SenderAuthenticator(delegation.senders, tokens, delegation.audience, client_authority)
        settings = replace(settings, senders=senders)
    return settings, authorities
