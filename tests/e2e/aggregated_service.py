"""The decisions service on SQLite behind an APIService, which the program itself refuses; for tests only."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from herodotus_endpoint.delegation import DelegationOptions, resolve_delegation
from herodotus_endpoint.server import ListenOptions, serve
from herodotus_endpoint.settings import ServiceSettings
from herodotus_endpoint.store import prepare_database, sqlite_url
from herodotus_serving.sockets import Address


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--cert", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--client-ca", type=Path)
    parser.add_argument("--sender", action="append", default=[])
    parser.add_argument("--max-watches", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    senders = dict(s.partition("=")[::2] for s in given.sender)
    url = sqlite_url(given.data / "herodotus.db")
    prepare_database(url)
    serve(
        ServiceSettings(max_watches=given.max_watches),
        url,
        ListenOptions(
            [Address(given.host, given.port)],
            probes=[Address("127.0.0.1", 0)],
            threads=4,
            workers=given.workers,
            key_pair=(given.cert, given.key),
            client_ca=given.client_ca,
        ),
        resolve_delegation(
            DelegationOptions(given.kubeconfig, True, senders, bool(given.client_ca), "herodotus-endpoint")
        ),
    )


if __name__ == "__main__":
    main()
