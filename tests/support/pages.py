"""Lists of a decisions service over HTTP."""

from __future__ import annotations

from typing import Any, Final

import httpx

API: Final = "/apis/herodotus.dev/v1alpha1"


def read_pages(service: httpx.Client, path: str, **params: str) -> list[dict[str, Any]]:
    """Return the items of all pages of a list below the API's path, such as `/decisions`."""
    items: list[dict[str, Any]] = []
    params = {"limit": "500", **params}
    while True:
        response = service.get(f"{API}{path}", params=params)
        response.raise_for_status()
        page = response.json()
        items += page["items"]
        if not page["metadata"].get("continue"):
            return items
        params["continue"] = page["metadata"]["continue"]
