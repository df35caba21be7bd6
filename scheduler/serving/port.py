"""The HTTPS port and the addresses for probes alone: their command-line options, and their start.

Options are named as in kube components, where those have them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from herodotus_kube.http import ApiServer
from herodotus_record import klog
from herodotus_serving.flag_types import add_probe_bind
from herodotus_serving.probes import ProbeServer
from herodotus_serving.sockets import Address, listen
from scheduler.serving.access import ALWAYS_ALLOWED_PATHS, RequestAuthorizer
from scheduler.serving.certificates import CertificateFiles, Certificates, ClientAuthorities
from scheduler.serving.routes import Content, StatusRoutes, build_probes
from scheduler.serving.server import StatusServer

PORT: Final = 10259  # kube-scheduler's


@dataclass(frozen=True)
class ServingOptions:
    """The parsed options of the HTTPS port and of the addresses for probes. If `port` is 0, the port is not opened."""

    host: str
    port: int
    certificates: CertificateFiles
    always_allowed: tuple[str, ...]
    probes: tuple[Address, ...] = ()


def add_serving_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of the HTTPS port, such as `--secure-port`, to a command-line parser."""
    parser.add_argument("--bind-address", default="0.0.0.0", metavar="ADDRESS", help="to listen on (default 0.0.0.0)")
    parser.add_argument(
        "--secure-port",
        type=_port,
        default=PORT,
        metavar="PORT",
        help=f"for health, metrics and configuration, over TLS (default {PORT}); 0 serves nothing",
    )
    for option, of in (("--tls-cert-file", "serving certificate"), ("--tls-private-key-file", "its key")):
        parser.add_argument(option, type=Path, metavar="FILE", help=f"{of}; read again when it changes")
    parser.add_argument(
        "--cert-dir",
        type=Path,
        metavar="DIR",
        help="where a self-signed certificate is kept if no other is given (default: in memory)",
    )
    parser.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of client certificates (default: the cluster's, asked of the API server)",
    )
    parser.add_argument(
        "--authorization-always-allow-paths",
        type=_paths,
        default=ALWAYS_ALLOWED_PATHS,
        metavar="PATHS",
        help=f"for everyone, with commas (default {','.join(ALWAYS_ALLOWED_PATHS)})",
    )
    add_probe_bind(parser, "/healthz, /livez and /readyz")


def parse_serving_options(arguments: argparse.Namespace) -> ServingOptions:
    """Return the options of the HTTPS port from the parsed command line."""
    return ServingOptions(
        arguments.bind_address,
        arguments.secure_port,
        CertificateFiles(
            arguments.tls_cert_file, arguments.tls_private_key_file, arguments.cert_dir, arguments.client_ca_file
        ),
        arguments.authorization_always_allow_paths,
        tuple(arguments.probe_bind or ()),
    )


def serve(options: ServingOptions, api: ApiServer, content: Content) -> Callable[[], None]:
    """Serve the HTTPS port and probes in threads, and return the function that stops both.

    Serve no HTTPS port if its number is 0. Raise ListenError or CertificateError if an address or the certificate
    cannot be used.
    """
    with ExitStack() as closing:
        if options.probes:
            probes = ProbeServer([listen(address) for address in options.probes], build_probes(content))
            closing.callback(probes.close)
            probes.start()
            klog.info(0, "Serving probes", addresses=" ".join(map(str, probes.addresses)))
        if options.port:
            authorities = ClientAuthorities(api, options.certificates.client_ca_file)
            certificates = Certificates(options.certificates, options.host, authorities, time.monotonic)
            routes = StatusRoutes(RequestAuthorizer(api, options.always_allowed), content)
            server = StatusServer((options.host, options.port), certificates.context, routes)
            authorities.start()
            closing.callback(authorities.close)
            server.start()
            closing.callback(server.close)
            klog.info(0, "Serving securely", address=options.host, port=server.port)
        return closing.pop_all().close


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(part for part in text.split(",") if part)
    if not all(path.startswith("/") for path in paths):
        raise argparse.ArgumentTypeError(f"{text!r}: a path starts with /")
    return paths
