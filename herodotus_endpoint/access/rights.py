"""Tokens and rights: both delegated to the API server, remembered for a few seconds.

Owns: TokenReview and SubjectAccessReview, their caches. Does not own: where a token comes from (`identity`), which
right a route needs (`guard`).

Invariant: never open. What cannot be checked raises NoAnswerError.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from herodotus_endpoint.access.apiserver import ApiServer, Json
from herodotus_endpoint.access.user import PRIVILEGED, User, of_review
from herodotus_record.model import API_GROUP, API_VERSION
from herodotus_serving.remembered import Remembered


@dataclass(frozen=True)
class Resource:
    """What is asked of one of our resources. `namespace` "": in all; `name` "": any."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def attributes(self) -> Json:
        """As a SubjectAccessReview has it."""
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
        """In the words of a refusal."""
        where = f' in the namespace "{self.namespace}"' if self.namespace else " at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{API_GROUP}"{where}'


@dataclass(frozen=True)
class Url:
    """What is asked of a path that is no resource."""

    path: str

    def attributes(self) -> Json:
        """As a SubjectAccessReview has it."""
        return {"nonResourceAttributes": {"path": self.path, "verb": "get"}}

    def __str__(self) -> str:
        return f'get path "{self.path}"'


Right = Resource | Url


class Rights:
    """Answers of one API server. Thread-safe."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._users: Remembered[User | None] = Remembered(clock)
        self._allowed: Remembered[bool] = Remembered(clock)

    def user_of(self, token: str, audience: str = "") -> User | None:
        """Whose token it is, and meant for `audience` ("": the API server's own); None where it is nobody's."""
        digest = hashlib.sha256(token.encode()).digest()  # a token is kept no longer than its request
        return self._users.get((digest, audience), lambda: self._review_token(token, audience))

    def may(self, user: User, right: Right) -> bool:
        """Whether the user has a right."""
        if PRIVILEGED in user.groups:
            return True
        return self._allowed.get((user, right), lambda: self._review_access(user, right))

    def _review_token(self, token: str, audience: str) -> User | None:
        audiences = {"audiences": [audience]} if audience else {}
        status = self._api.review("authentication.k8s.io", "TokenReview", {"token": token} | audiences)
        meant = not audience or audience in (status.get("audiences") or ())  # a server that knows no audiences: none
        user = of_review(status.get("user") or {})
        return user if status.get("authenticated") is True and meant and user.name else None

    def _review_access(self, user: User, right: Right) -> bool:
        spec: Json = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra},
        }
        status = self._api.review("authorization.k8s.io", "SubjectAccessReview", spec | right.attributes())
        return status.get("allowed") is True and not status.get("denied")
