"""Authentication of senders of records: a service account's token or a client certificate, bound to a cluster.

Owns: the configured senders, recognizing them, and their cluster. Does not own: TLS, checking the batch's cluster
(`store.writer`).

Invariant: a sender is bound to one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from herodotus_endpoint.access.authorization import ReviewCache
from herodotus_endpoint.access.front_proxy import verified_common_name
from herodotus_endpoint.access.identity import Environ, bearer_token, client_certificate
from herodotus_endpoint.errors import StatusError, retry_later
from herodotus_kube.api_conventions import ApiError


@dataclass(frozen=True)
class SenderAuthenticator:
    """Authentication of the schedulers that send records; each sender is bound to one cluster.

    `clusters` maps a sender's user name, or its certificate's common name, to the ID of its cluster. `rights` reviews
    tokens, which must be valid for `audience`; it is None if senders use certificates. `authority` returns the PEM
    certificates of the CAs that sign senders' certificates, or "" if senders use tokens.
    """

    clusters: Mapping[str, str]
    rights: ReviewCache | None = None
    audience: str = ""
    authority: Callable[[], str] = str

    def authenticate(self, environ: Environ) -> str:
        """Return the ID of the cluster for which the sender of this request may send records.

        Raises StatusError 401 without valid credentials, 403 if the sender is not in `clusters`, and 503 if the API
        server cannot review the token.
        """
        name = self._certified(environ) or self._tokened(environ)
        if not name:
            raise StatusError(401, "ingest needs a service account's token or a client certificate")
        if name not in self.clusters:
            raise StatusError(403, f'"{name}" is not a configured sender of records (--ingest-sender)')
        return self.clusters[name]

    @property
    def names(self) -> Mapping[str, str]:
        """The ID of each cluster by the common name of its sender's certificate; empty if senders use tokens."""
        return self.clusters if self.rights is None else {}

    def _certified(self, environ: Environ) -> str:
        der = client_certificate(environ)
        return (verified_common_name(der, self.authority()) or "") if der else ""

    def _tokened(self, environ: Environ) -> str:
        token = bearer_token(environ)
        if not token or self.rights is None:
            return ""
        try:
            user = self.rights.authenticate_token(token, self.audience)
        except ApiError as e:
            raise retry_later(503, f"cannot authenticate the token: {e.describe()}") from e
        return user.name if user else ""
