"""Who may send records, and of which cluster: a service account by its token, or a client certificate.

Owns: the senders that the configuration names, telling which of them sends, and for which cluster. Does not own: TLS,
holding the batch to that cluster (`store.writer`).

Invariant: a sender is bound to one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from herodotus_endpoint.access.apiserver import NoAnswerError
from herodotus_endpoint.access.frontproxy import certified_name
from herodotus_endpoint.access.identity import Environ, bearer_token, client_certificate
from herodotus_endpoint.access.rights import Rights
from herodotus_endpoint.errors import ApiError, busy


@dataclass(frozen=True)
class Senders:
    """`clusters`: user name, or a certificate's common name -> cluster id.

    `rights`: reviews tokens that are meant for `audience`; None where certificates are taken. `authority`: the PEM of
    those whose client certificates are senders', as it is now; "" where tokens are taken.
    """

    clusters: Mapping[str, str]
    rights: Rights | None = None
    audience: str = ""
    authority: Callable[[], str] = str

    def cluster_of(self, environ: Environ) -> str:
        """The cluster whose records the sender of a request may send. ApiError 401 or 403."""
        name = self._certified(environ) or self._tokened(environ)
        if not name:
            raise ApiError(401, "ingest needs a service account's token or a client certificate")
        if name not in self.clusters:
            raise ApiError(403, f'"{name}" is no sender of records (--ingest-sender)')
        return self.clusters[name]

    def _certified(self, environ: Environ) -> str:
        der = client_certificate(environ)
        return (certified_name(der, self.authority()) or "") if der else ""

    def _tokened(self, environ: Environ) -> str:
        token = bearer_token(environ)
        if not token or self.rights is None:
            return ""
        try:
            user = self.rights.user_of(token, self.audience)
        except NoAnswerError as e:
            raise busy(503, f"whose token this is cannot be found out: {e}") from e
        return user.name if user else ""
