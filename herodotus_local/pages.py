"""The web pages without a decisions service: their files, and the answers to their requests.

Several requests make a page, and a page is read again while it is open. So one reading of the cluster answers all
requests for a while, which is longer the longer the reading took.

Owns: HTTP status codes and documents of failures, when the cluster is read anew. Does not own: the answers (`service`),
the pages' files (`herodotus_endpoint.pages`), who may ask.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final, NamedTuple

import msgspec

from herodotus_endpoint import pages
from herodotus_local.errors import HistoryNeededError, NoObjectError, ReadError, UnusableInputError
from herodotus_local.service import LocalAnswer, LocalService

_MIN_AGE_S: Final = 5.0  # for which a reading is used: the requests of one page
_READINGS: Final = 3.0  # or as many times as long as it took with the first answer
_NO_HISTORY: Final = "this page is made of past decisions, and local mode has none"

Json = dict[str, Any]


class PageAnswer(NamedTuple):
    """The answer to a request of the web pages."""

    code: int
    headers: Mapping[str, str]
    body: bytes


class LocalPages:
    """Answers the web pages' requests from the cluster, which is read again when the last reading has become old.

    Safe for concurrent use: one request is answered at a time.
    """

    def __init__(self, open_service: Callable[[], LocalService], close_service: Callable[[], None]) -> None:
        """Prepare without reading. `open_service` returns the open service or opens one, `close_service` closes it."""
        self._open, self._close = open_service, close_service
        self._lock = threading.Lock()
        self._expires_s = 0.0
        self._files = pages.build_files_app().test_client()

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> PageAnswer:
        """Answer a request for a file of the pages, or to the decisions API. `path` has the query string."""
        if path.partition("?")[0].startswith(pages.HOME):
            response = self._files.open(path, method=method, headers=dict(headers))
            return PageAnswer(response.status_code, dict(response.headers), response.data)
        answer = self.while_fresh(lambda: self._ask(method, path, body))
        return PageAnswer(answer.code, {"Content-Type": "application/json"}, msgspec.json.encode(answer.document))

    def while_fresh(self, ask: Callable[[], Any]) -> Any:
        """Call `ask` under a lock and return its result.

        If the service read the cluster too long ago, it is closed before, so that `ask` opens one that reads again.
        """
        with self._lock:
            began_s = time.monotonic()
            is_old = began_s >= self._expires_s
            if is_old:
                self._close()
            try:
                return ask()
            finally:
                if is_old:
                    now_s = time.monotonic()
                    self._expires_s = now_s + max(_MIN_AGE_S, _READINGS * (now_s - began_s))

    def _ask(self, method: str, path: str, body: bytes) -> LocalAnswer:
        try:
            service = self._open()
            if method == "POST":
                return service.post(path, msgspec.json.decode(body))
            return service.get(path)
        except HistoryNeededError:
            return _build_failure(501, "NotImplemented", _NO_HISTORY)
        except NoObjectError as e:
            return _build_failure(404, "NotFound", str(e), similar=list(e.similar))
        except ReadError as e:
            return _build_failure(e.code if e.code in (401, 403, 404) else 502, "", e.message)
        except (OSError, HTTPException) as e:
            return _build_failure(502, "", f"kubectl proxy did not answer: {e}")
        except (UnusableInputError, msgspec.DecodeError) as e:
            return _build_failure(422, "Invalid", str(e))


def _build_failure(code: int, reason: str, message: str, **details: Any) -> LocalAnswer:
    """Return an answer with a Kubernetes Status."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return LocalAnswer(code, {**status, "message": message, "reason": reason, "details": details, "code": code})
