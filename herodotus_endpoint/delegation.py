"""Set-up of authentication and authorization by the API server, from the flags of the service.

Owns: the creation of the objects of `access`. Does not own: these objects, flags.

Invariant: connections and threads belong to the worker process that created them; none is inherited by a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from herodotus_endpoint.access.authentication import ReaderAuthenticator, SenderAuthenticator
from herodotus_kube.credentials import KubeconfigError, find_credentials
from herodotus_kube.delegated_auth import FrontProxy, ReviewCache
from herodotus_kube.discovery import fetch_cluster_id
from herodotus_kube.http import ApiError, ApiServer
from herodotus_kube.published_authorities import read_front_proxy, watch_front_proxy

if TYPE_CHECKING:
    from herodotus_endpoint.settings import ServiceSettings

USER_AGENT = "herodotus-endpoint"
MAX_CONNECTIONS = 16
REVIEW_TIMEOUT_S = 5.0  # a review takes milliseconds; this bounds how long a reader waits


@dataclass(frozen=True)
class DelegationOptions:
    """The options for the authentication of readers and of senders of records.

    `senders` maps a sender's user name, or its certificate's common name, to the ID of its cluster; "" means the API
    server's cluster. If `certified` is true, senders present client certificates, otherwise tokens that are valid for
    `audience`.

    `resolve_delegation` sets `front_proxy` and `cluster`, the ID of the API server's cluster.
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
        """Whether readers or senders can be authenticated only with an API server."""
        return self.aggregated_api or "" in self.senders.values() or bool(self.senders and not self.certified)


def resolve_delegation(delegation: DelegationOptions) -> DelegationOptions:
    """Return the options completed with the front proxy's settings and the cluster's UID from the API server.

    Options that need no API server are returned unchanged. Raises KubeconfigError if the API server cannot be read.
    Both must be known before the first connection, because TLS requests a client certificate only during the handshake.
    """
    if not delegation.needs_api_server:
        return delegation
    api = _connect(delegation)
    try:
        own_cluster = fetch_cluster_id(api)
        senders = {name: cluster or own_cluster for name, cluster in delegation.senders.items()}
        front_proxy = read_front_proxy(api) if delegation.aggregated_api else FrontProxy()
    except (ApiError, KeyError, TypeError) as e:
        problem = e.describe() if isinstance(e, ApiError) else e
        raise KubeconfigError(
            f"cannot read the cluster's UID or the front proxy's settings from the API server: {problem}"
        ) from e
    finally:
        api.close()
    if delegation.aggregated_api and not front_proxy.authority:
        raise KubeconfigError("the API server publishes no front proxy: set its flag --requestheader-client-ca-file")
    return replace(delegation, senders=senders, front_proxy=front_proxy, cluster=own_cluster)


def _connect(delegation: DelegationOptions) -> ApiServer:
    credentials = find_credentials(kubeconfig=delegation.kubeconfig)
    return ApiServer(credentials, MAX_CONNECTIONS, user_agent=USER_AGENT, timeout_s=REVIEW_TIMEOUT_S)


def open_delegation(
    settings: ServiceSettings, delegation: DelegationOptions, client_authority: Callable[[], str]
) -> tuple[Any, Callable[[], Sequence[str]]]:
    """Create the objects that authenticate readers and senders, for the worker process that calls this function.

    Return the settings with these objects, and a function that returns the PEM certificates of the front proxy's CAs.
    `client_authority` returns the PEM certificates of the CAs that sign senders' certificates.
    """
    rights = None
    if delegation.needs_api_server:
        api = _connect(delegation)
        rights = ReviewCache(api)
    settings = replace(settings, cluster=delegation.cluster)
    authorities: Callable[[], Sequence[str]] = tuple
    if delegation.aggregated_api and rights is not None:
        published = watch_front_proxy(api, delegation.front_proxy)
        published.start()
        settings = replace(settings, access=ReaderAuthenticator(rights, lambda: published.value))
        authorities = lambda: (published.value.authority,)  # noqa: E731 - a named function would not be clearer
    if delegation.senders:
        tokens = None if delegation.certified else rights
        senders = SenderAuthenticator(delegation.senders, tokens, delegation.audience, client_authority)
        settings = replace(settings, senders=senders)
    return settings, authorities
