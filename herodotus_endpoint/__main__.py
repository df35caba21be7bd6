"""`python -m herodotus_endpoint`: exit codes 0 (stopped), 1 (cannot run here), 2 (bad arguments), 3 (program error).

Owns: the order of a start. Does not own: flags (`options`), anything that runs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from herodotus_endpoint import certificate, deployment_modes, maintenance, options
from herodotus_endpoint.archive import ArchiveError
from herodotus_endpoint.delegation import resolve_delegation
from herodotus_endpoint.deployment_modes import DeploymentModeError
from herodotus_endpoint.extras import MissingExtraError, require_extra
from herodotus_endpoint.server import serve
from herodotus_endpoint.store import StoreError, check_read_url, prepare_database
from herodotus_kube.credentials import KubeconfigError
from herodotus_record.escaping import escape
from herodotus_serving import logs
from herodotus_serving.certificates import CertificateError
from herodotus_serving.sockets import ListenError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service or a maintenance command, and return the exit code."""
    logs.configure(logging.INFO)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs a line at every start
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs a line for every review
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in maintenance.COMMANDS:
        return maintenance.main(argv)
    if argv and argv[0] == certificate.COMMAND:
        return certificate.main(argv[1:])
    parser = options.build_parser()
    arguments = parser.parse_args(argv)
    url = options.database_url(arguments)
    try:
        listen_on = options.build_listening(arguments)
        deployment_modes.check_mode(options.build_mode(arguments, listen_on, url))
    except (DeploymentModeError, argparse.ArgumentTypeError) as e:
        parser.error(str(e))
    if (arguments.otlp_endpoint or "").startswith("http:"):
        logging.warning("--otlp-endpoint: names of pods and nodes are sent unencrypted; use https off this machine")
    if arguments.insecure:
        logging.warning("--insecure: unauthenticated ingest is accepted from any peer")
    try:
        if arguments.otlp_endpoint:
            require_extra("otlp", "--otlp-endpoint")
        if arguments.archive:
            require_extra("archive", "--archive")
        if replicas := options.read_database_url(arguments):
            check_read_url(replicas)
        delegation = resolve_delegation(options.build_delegation(arguments))
        prepare_database(url)
        serve(options.build_settings(arguments), url, listen_on, delegation)
    except (StoreError, ListenError, CertificateError, KubeconfigError, MissingExtraError, ArchiveError) as e:
        print(f"error: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
