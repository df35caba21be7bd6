"""python -m herodotus_endpoint: exit codes 0 (stopped), 1 (cannot run here), 2 (bad arguments).

Owns: the order of a start. Does not own: flags (`options`), anything that runs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from herodotus_endpoint import certificate, maintenance, options, shapes
from herodotus_endpoint.access.apiserver import CredentialsError
from herodotus_endpoint.access.delegation import resolved
from herodotus_endpoint.server import ListenError, serve
from herodotus_endpoint.shapes import ShapeError
from herodotus_endpoint.store import StoreError, prepare
from herodotus_endpoint.tls import TlsError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service; the exit code."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # a line for every start otherwise
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for every review
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in maintenance.COMMANDS:
        return maintenance.main(argv)
    if argv and argv[0] == certificate.COMMAND:
        return certificate.main(argv[1:])
    parser = options.parser()
    arguments = parser.parse_args(argv)
    url = options.database_url(arguments)
    try:
        where = options.listening(arguments)
        shapes.check(options.shape(arguments, where, url))
    except (ShapeError, argparse.ArgumentTypeError) as e:
        parser.error(str(e))
    if arguments.insecure:
        logging.warning("--insecure: unauthenticated ingest is accepted from any peer")
    try:
        delegation = resolved(options.delegation(arguments))
        prepare(url)
        serve(options.settings(arguments), url, where, delegation)
    except (StoreError, ListenError, TlsError, CredentialsError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
