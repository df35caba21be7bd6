"""The HTTPS port and the addresses for probes alone: their command-line options, and their start.

Options are named as in kube components, where those have them. The serving certificate is that of `--tls-cert-file` and
`--tls-private-key-file`, or the pair in `--cert-dir` (created if absent), or one in memory.

Invariant: a key that is created here is written to disk only if `--cert-dir` asks for it.
"""

from __future__ import annotations

import argparse
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from herodotus_kube.http import ApiServer
from herodotus_kube.published_authorities import watch_client_authorities
from herodotus_record import klog
from herodotus_serving.certificates import (
    CertificateError,
    KeyPair,
    ServingCertificate,
    create_self_signed,
    write_key_pair,
)
from herodotus_serving.flag_types import add_probe_bind
from herodotus_serving.probes import ProbeServer
from herodotus_serving.sockets import Address, listen
from scheduler.serving.access import ALWAYS_ALLOWED_PATHS, RequestAuthorizer
from scheduler.serving.routes import Content, StatusRoutes, build_probes
from scheduler.serving.server import StatusServer

PORT: Final = 10259  # kube-scheduler's
PAIR_NAME: Final = "kube-scheduler"  # of the files in --cert-dir
VALID_FOR: Final = timedelta(days=365)  # what is made here; as kube components make theirs


@dataclass(frozen=True)
class ServingOptions:
    """The parsed options of the HTTPS port and of the addresses for probes. If `port` is 0, the port is not opened.

    A path that is not given is None.
    """

    host: str
    port: int
    always_allowed: tuple[str, ...]
    probes: tuple[Address, ...] = ()
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_dir: Path | None = None
    client_ca_file: Path | None = None


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
        arguments.authorization_always_allow_paths,
        tuple(arguments.probe_bind or ()),
        arguments.tls_cert_file,
        arguments.tls_private_key_file,
        arguments.cert_dir,
        arguments.client_ca_file,
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
            authorities = watch_client_authorities(api, options.client_ca_file)
            pair = find_key_pair(options.cert_file, options.key_file, options.cert_dir, options.host)
            certificate = ServingCertificate(pair, lambda: authorities.value, _log_reload)
            routes = StatusRoutes(RequestAuthorizer(api, options.always_allowed), content)
            server = StatusServer((options.host, options.port), certificate.context, routes)
            authorities.start()
            closing.callback(authorities.close)
            server.start()
            closing.callback(server.close)
            klog.info(0, "Serving securely", address=options.host, port=server.port)
        return closing.pop_all().close


def find_key_pair(cert_file: Path | None, key_file: Path | None, cert_dir: Path | None, host: str) -> KeyPair:
    """Return the files of the serving certificate and its key, or a new pair for `host` to be kept in memory.

    A missing pair in `cert_dir` is created. Raise CertificateError if that fails or only one file is given.
    """
    if cert_file and key_file:
        return cert_file, key_file
    if cert_file or key_file:
        raise CertificateError("--tls-cert-file and --tls-private-key-file must be given together")
    if cert_dir is None:
        return b"".join(_make_certificate(host))
    certificate, key = (cert_dir / f"{PAIR_NAME}.{end}" for end in ("crt", "key"))
    try:
        if not (certificate.exists() and key.exists()):
            cert_dir.mkdir(parents=True, exist_ok=True)
            private, public = _make_certificate(host)
            write_key_pair(certificate, key, public, private)
    except OSError as e:
        raise CertificateError(f"--cert-dir {cert_dir}: {e.strerror or e}") from e
    return certificate, key


def _make_certificate(host: str) -> tuple[bytes, bytes]:
    """Return a new private key and a self-signed certificate for it, as PEM.

    Clients cannot verify the certificate; the kubelet, which sends probes, does not try to.
    """
    own = [socket.gethostname()] if socket.gethostname().isascii() else []
    return create_self_signed(["localhost", "127.0.0.1", *own, host], VALID_FOR)


def _log_reload(failure: Exception | None) -> None:
    if failure is None:
        klog.info(0, "Reloaded the serving certificate and client authorities")
    else:
        klog.error(failure, "Cannot load the changed certificate, going on with the old one")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(part for part in text.split(",") if part)
    if not all(path.startswith("/") for path in paths):
        raise argparse.ArgumentTypeError(f"{text!r}: a path starts with /")
    return paths
