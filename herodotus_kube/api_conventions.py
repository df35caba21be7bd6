"""What the API server's answers have in common: errors and the pages of a list.

It imports no HTTP library, so that modules which handle errors or bring their own transport start quickly.

Source: Kubernetes API conventions, "Response Status Kind" and "Retrieving large results sets in chunks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from herodotus_record.typed_decoding import json_decoder

Json = dict[str, Any]

# Objects in a page: some 25 MB. client-go's 500 cost the API server three times as much processor time with 50,000
# pods, as it goes over all that are left for each page.
PAGE: Final = 2500


class ApiError(Exception):
    """The API server refused a request or did not respond. `code` is the HTTP status, or 0 if there was no response.

    Its text is the API server's message alone. `request` is the method and path, or "" if no request was sent.
    """

    def __init__(
        self, code: int, reason: str, message: str, retry_after_s: float | None = None, request: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.request = request

    def describe(self) -> str:
        """Return one line with the request, its outcome and the message; only the message if no request was sent.

        It is for readers who do not know which request was sent.
        """
        if not self.request:
            return str(self)
        outcome = f"answered {self.code}" if self.code else "did not answer"
        return f"{self.request}: the API server {outcome}: {self}"


class ListMetadata(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """What listing and watching need of the metadata of a list, or of a bookmark's object."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, gc=False, frozen=True):
    """One page of a list, with its objects as JSON. A response without metadata is no list."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


_PAGES: Final = json_decoder(Page)


def read_pages(fetch: Callable[[Mapping[str, str]], bytes], params: Mapping[str, str]) -> Iterator[Page]:
    """Yield the pages of a list. `fetch` gets the query parameters of a page and returns the response body.

    `params` are parameters of every page, such as selectors. Raises msgspec.MsgspecError if a response is not a list.
    """
    more = ""
    while True:
        page = _PAGES.decode(fetch({**params, "limit": str(PAGE)} | ({"continue": more} if more else {})))
        yield page
        more = page.metadata.continue_
        if not more:
            return
