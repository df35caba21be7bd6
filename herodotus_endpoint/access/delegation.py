"""What a worker delegates to the API server, put together from what the flags say.

Owns: the wiring of this room. Does not own: its parts, flags.

Invariant: nothing here survives a fork: connections and threads belong to the worker that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from herodotus_endpoint.access.apiserver import ApiServer, CredentialsError, NoAnswerError
from herodotus_endpoint.access.frontproxy import FrontProxy, Published, read
from herodotus_endpoint.access.guard import Access
from herodotus_endpoint.access.identity import Identity
from herodotus_endpoint.access.rights import Rights
from herodotus_endpoint.access.senders import Senders

if TYPE_CHECKING:
    from herodotus_endpoint.settings import Settings

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"  # its UID names the cluster in every record


@dataclass(frozen=True)
class Delegation:
    """`senders`: who may send records, and of which cluster ("": the API server's own).

    `certified`: senders show certificates, not tokens. `audience`: what tokens must be meant for. `front_proxy`: as it
    was known at the start.
    """

    kubeconfig: str = ""
    aggregated_api: bool = False
    senders: Mapping[str, str] = field(default_factory=dict)
    certified: bool = False
    audience: str = ""
    front_proxy: FrontProxy = field(default_factory=FrontProxy)

    @property
    def asks(self) -> bool:
        """Whether an API server is needed at all."""
        return self.aggregated_api or "" in self.senders.values() or bool(self.senders and not self.certified)


def resolved(delegation: Delegation) -> Delegation:
    """With what the API server says of itself. CredentialsError when it does not say it.

    Known before the first connection: one that was accepted without asking for a certificate would stay so.
    """
    if not delegation.asks:
        return delegation
    api = ApiServer(delegation.kubeconfig)
    try:
        own = str(api.get(KUBE_SYSTEM)["metadata"]["uid"]) if "" in delegation.senders.values() else ""
        senders = {name: cluster or own for name, cluster in delegation.senders.items()}
        front_proxy = read(api) if delegation.aggregated_api else FrontProxy()
    except (NoAnswerError, KeyError, TypeError) as e:
        raise CredentialsError(f"the API server does not say what is needed to serve: {e}") from e
    finally:
        api.close()
    if delegation.aggregated_api and not front_proxy.authority:
        raise CredentialsError("the API server has no front proxy: its --requestheader-client-ca-file is not set")
    return replace(delegation, senders=senders, front_proxy=front_proxy)


def opened(
    settings: Settings, delegation: Delegation, client_authority: Callable[[], str]
) -> tuple[Any, Callable[[], Sequence[str]]]:
    """The settings with who may read and send, and the authorities that TLS believes beside the senders'."""
    rights = None
    if delegation.asks:
        api = ApiServer(delegation.kubeconfig)
        rights = Rights(api)
    authorities: Callable[[], Sequence[str]] = tuple
    if delegation.aggregated_api and rights is not None:
        published = Published(api, delegation.front_proxy)
        published.start()
        access = Access(Identity(rights, lambda: published.known), rights)
        settings = replace(settings, access=access)
        authorities = lambda: (published.known.authority,)  # noqa: E731 - a name for it says no more
    if delegation.senders:
        tokens = None if delegation.certified else rights
        senders = Senders(delegation.senders, tokens, delegation.audience, client_authority)
        settings = replace(settings, senders=senders)
    return settings, authorities
