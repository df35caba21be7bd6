"""Token reviews and access reviews by the API server, cached for a few seconds.

Owns: TokenReview, SubjectAccessReview and their caches. Does not own: where a token comes from (`identity`), which
right a route requires (`guard`).

Invariant: access fails closed. If a review fails, ApiError is raised.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herodotus_endpoint.access.user_info import PRIVILEGED, UserInfo, parse_user_info
from herodotus_record.model import API_GROUP, API_VERSION
from herodotus_serving.ttl_cache import TTLCache

if TYPE_CHECKING:
    from herodotus_kube.http import ApiServer

Json = dict[str, Any]


@dataclass(frozen=True)
class ResourceRight:
    """The right to use a verb, such as `list`, on a resource of the API group herodotus.dev.

    If `namespace` is "", the right covers all namespaces; if `name` is "", it covers every object.
    """

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> Json:
        """Return the part of a SubjectAccessReview's spec that describes this right (`resourceAttributes`)."""
        return {
            "resourceAttributes": {
                "group": API_GROUP,
                "version": API_VERSION.partition("/")[2],
                "verb": self.verb,
                "resource": self.resource,
                "namespace": self.namespace,
                "name": self.name,
            }
        }

    def __str__(self) -> str:
        """Return the right in the wording of the API server's Forbidden message."""
        where = f' in the namespace "{self.namespace}"' if self.namespace else " at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{API_GROUP}"{where}'


@dataclass(frozen=True)
class UrlRight:
    """The right to `get` a non-resource URL of the service, such as /metrics."""

    path: str

    def attributes(self) -> Json:
        """Return the part of a SubjectAccessReview's spec that describes this right (`nonResourceAttributes`)."""
        return {"nonResourceAttributes": {"path": self.path, "verb": "get"}}

    def __str__(self) -> str:
        return f'get path "{self.path}"'


Right = ResourceRight | UrlRight


class ReviewCache:
    """A thread-safe cache of TokenReview and SubjectAccessReview results from one API server.

    It requests a review from the API server if it has no result or the result is older than ten seconds.
    """

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: TTLCache[UserInfo | None] = TTLCache(clock)
        self._allowed: TTLCache[bool] = TTLCache(clock)

    def authenticate_token(self, token: str, audience: str = "") -> UserInfo | None:
        """Return the user of a bearer token, or None if the API server does not accept the token for `audience`.

        If `audience` is "", the token must be valid for the API server itself. Raises ApiError if the review fails.
        """
        digest = hashlib.sha256(token.encode()).digest()  # the cache holds no tokens
        return self._users.get((digest, audience), lambda: self._review_token(token, audience))

    def is_allowed(self, user: UserInfo, right: Right) -> bool:
        """Return whether the API server allows the user to do what `right` describes.

        Raises ApiError if the review fails.
        """
        if PRIVILEGED in user.groups:
            return True
        return self._allowed.get((user, right), lambda: self._review_access(user, right))

    def _review_token(self, token: str, audience: str) -> UserInfo | None:
        audiences = {"audiences": [audience]} if audience else {}
        status = self._api.review("authentication.k8s.io", "TokenReview", {"token": token} | audiences)
        meant = not audience or audience in (
            status.get("audiences") or ()
        )  # a server without audience support returns none
        user = parse_user_info(status.get("user") or {})
        return user if status.get("authenticated") is True and meant and user.name else None

    def _review_access(self, user: UserInfo, right: Right) -> bool:
        spec: Json = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        status = self._api.review("authorization.k8s.io", "SubjectAccessReview", spec | right.attributes())
        return status.get("allowed") is True and not status.get("denied")
