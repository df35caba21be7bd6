"""The flags of `python -m herodotus_endpoint` and the options that they set.

Owns: flags, their bounds and defaults. Does not own: which flags are compatible (`deployment_modes`), the service.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from herodotus_endpoint.archive import ArchiveError
from herodotus_endpoint.archive.urls import ArchiveUrl
from herodotus_endpoint.delegation import DelegationOptions
from herodotus_endpoint.deployment_modes import DeploymentMode
from herodotus_endpoint.server import ListenOptions
from herodotus_endpoint.settings import MAX_WATCHES, MAX_WATCHES_PER_USER, ServiceSettings
from herodotus_endpoint.store import RetentionLimits, sqlite_url
from herodotus_record.version import __version__
from herodotus_serving.flag_types import ByteSize, add_probe_bind, parse_address
from herodotus_serving.sockets import Address

DEFAULT_BIND: Final = Address("127.0.0.1", 8000)  # the first Herodotus' port, on loopback only
FILE: Final = "herodotus.db"  # in the data directory
DEFAULT_THREADS: Final = 8  # for queries; ingest has threads of its own (`pools`)
MAX_THREADS: Final = 64  # more would only wait for each other
MAX_WORKERS: Final = 16
AUDIENCE: Final = "herodotus-endpoint"  # of senders' tokens, so that a stolen one is useless elsewhere
MIN_BYTES: Final = 1 << 20  # an empty database has 350 kB
MAX_SECONDS: Final = 36_500 * 86_400  # a century, which in microseconds fits a 64-bit integer, before 1970 too
_DATABASE_SIZE: Final = ByteSize(MIN_BYTES, "500Mi or 4Gi")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def build_parser() -> argparse.ArgumentParser:
    """Return the argument parser with every flag of the service."""
    parser = argparse.ArgumentParser(
        prog="python -m herodotus_endpoint",
        description="The decisions service of Herodotus: stores scheduling decisions and answers questions about them.",
        epilog="Without --ingest-sender, ingest is accepted from loopback peers only.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    _add_listening_flags(parser.add_argument_group("listening"))
    _add_reader_flags(
        parser.add_argument_group("readers (without --aggregated-api, every client of a listener may read)")
    )
    _add_sender_flags(parser.add_argument_group("senders of records"))
    _add_store_flags(parser)
    _add_retention_flags(parser)
    _add_tracing_flags(parser.add_argument_group("traces"))
    return parser


def build_settings(arguments: argparse.Namespace) -> ServiceSettings:
    """Return the service's settings from the parsed flags."""
    return ServiceSettings(
        insecure=arguments.insecure,
        limits=RetentionLimits(
            max_age_s=arguments.max_age,
            max_bytes=arguments.max_bytes,
            history_max_age_s=arguments.history_max_age,
            max_age_of=dict(arguments.max_age_of or ()),
            summary_max_age_s=arguments.summary_max_age,
            summary_max_age_of=dict(arguments.summary_max_age_of or ()),
            summary_max_bytes=arguments.summary_max_bytes,
            unbounded=arguments.retention_unbounded,
        ),
        max_watches=arguments.max_watches,
        max_watches_per_user=arguments.max_watches_per_user,
        read_database_url=read_database_url(arguments),
        pages_url=arguments.pages_url or "",
        otlp_endpoint=arguments.otlp_endpoint or "",
        archive_url=arguments.archive or "",
        ingest_quota=float(arguments.ingest_quota or 0),
    )


def build_listening(arguments: argparse.Namespace) -> ListenOptions:
    """Return the addresses, threads, worker processes and TLS files of the service from the parsed flags.

    Raises argparse.ArgumentTypeError if only one of certificate and key is given.
    """
    pair = arguments.tls_cert_file, arguments.tls_private_key_file
    if any(pair) and not all(pair):
        raise argparse.ArgumentTypeError("--tls-cert-file and --tls-private-key-file go together")
    return ListenOptions(
        arguments.bind or [DEFAULT_BIND],
        arguments.ingest_bind or [],
        arguments.probe_bind or [],
        arguments.threads,
        arguments.workers,
        pair if all(pair) else None,
        arguments.client_ca_file,
    )


def build_delegation(arguments: argparse.Namespace) -> DelegationOptions:
    """Return the options for the authentication of readers and senders from the parsed flags."""
    senders = dict(arguments.ingest_sender or ())
    return DelegationOptions(
        arguments.kubeconfig or "",
        arguments.aggregated_api,
        senders,
        bool(arguments.client_ca_file),
        arguments.ingest_audience,
    )


def build_mode(arguments: argparse.Namespace, listen_on: ListenOptions, url: str) -> DeploymentMode:
    """Return those properties of the parsed flags that decide whether their combination is supported."""
    return DeploymentMode(
        sqlite=url.startswith("sqlite"),
        replicas=bool(read_database_url(arguments)),
        aggregated_api=arguments.aggregated_api,
        workers=arguments.workers,
        tls=listen_on.key_pair is not None,
        insecure=arguments.insecure,
        senders=bool(arguments.ingest_sender),
        client_ca=bool(arguments.client_ca_file),
        hosts=[address.host for address in listen_on.queries],
        ingest_hosts=[address.host for address in listen_on.ingest or listen_on.queries],
    )


def database_url(arguments: argparse.Namespace) -> str:
    """Return the database's URL from the flags, else from HERODOTUS_DATABASE_URL, else of the default SQLite file."""
    if arguments.data:
        return sqlite_url(arguments.data / FILE)
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    url: str = arguments.database_url or os.environ.get("HERODOTUS_DATABASE_URL") or ""
    return url or sqlite_url(state / "herodotus" / FILE)


def read_database_url(arguments: argparse.Namespace) -> str:
    """Return the URL of the database's replicas from the flags, else from HERODOTUS_READ_DATABASE_URL, or ""."""
    return arguments.read_database_url or os.environ.get("HERODOTUS_READ_DATABASE_URL") or ""


def parse_time(value: str) -> int:
    """Return the time that an age such as 12h or an RFC 3339 text denotes, in microseconds since 1970.

    Raises argparse.ArgumentTypeError for other texts.
    """
    if re.fullmatch(r"[0-9]+[smhd]", value):
        return int((time.time() - parse_duration(value)) * 1e6)
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{value!r} is neither a time such as 12h or 7d, nor 2026-03-01T12:00:00Z")
    return int(parsed.timestamp() * 1e6)


def parse_archive_url(value: str) -> str:
    """Return the URL of an archive unchanged. Raises argparse.ArgumentTypeError if it is not supported."""
    try:
        ArchiveUrl.parse(value)
    except ArchiveError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
    return value


def parse_pages_url(value: str) -> str:
    """Return the address of the web pages unchanged. Raises argparse.ArgumentTypeError if links cannot extend it."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"{value!r} is not an address such as https://herodotus.example.com/ui")
    return value


def _add_listening_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--bind",
        action="append",
        type=parse_address,
        metavar="HOST:PORT",
        help=f"address to serve on, repeatable; port 0 takes a free one and prints it (default {DEFAULT_BIND})",
    )
    group.add_argument(
        "--ingest-bind",
        action="append",
        type=parse_address,
        metavar="HOST:PORT",
        help="serve ingest on this address and on no other, so that a NetworkPolicy can separate it from queries",
    )
    add_probe_bind(group, "/livez and /readyz")
    group.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE", help="certificate for TLS; read again when it changes"
    )
    group.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="private key of the certificate")
    group.add_argument(
        "--threads",
        type=_IntegerInRange(1, MAX_THREADS),
        default=DEFAULT_THREADS,
        metavar="N",
        help=f"requests handled at the same time, 1 to {MAX_THREADS} (default {DEFAULT_THREADS})",
    )
    group.add_argument(
        "--workers",
        type=_IntegerInRange(1, MAX_WORKERS),
        default=1,
        metavar="N",
        help=f"processes, each with --threads threads, 1 to {MAX_WORKERS}; more than one needs PostgreSQL (default 1)",
    )


def _add_reader_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--aggregated-api",
        action="store_true",
        help="serve as an APIService's backend: the API server's front proxy or a bearer token identifies readers, RBAC"
        " authorizes them; needs PostgreSQL and TLS",
    )
    group.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig of the API server (default: the cluster of this pod)"
    )
    group.add_argument(
        "--max-watches",
        type=_IntegerInRange(0, 256),
        default=MAX_WATCHES,
        metavar="N",
        help="watches at the same time in each process (default %(default)s)",
    )
    group.add_argument(
        "--max-watches-per-user",
        type=_IntegerInRange(0, 256),
        default=MAX_WATCHES_PER_USER,
        metavar="N",
        help="watches of one user at the same time (default %(default)s)",
    )
    group.add_argument(
        "--pages-url",
        type=parse_pages_url,
        metavar="URL",
        help="address at which readers open the web pages, such as https://HOST/ui of an ingress: their copied links"
        " begin with it",
    )


def _add_sender_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--ingest-sender",
        action="append",
        type=_parse_sender,
        metavar="USER[=CLUSTER]",
        help="accept records of CLUSTER (a UID; default: the API server's own) only from this user, for example"
        " system:serviceaccount:herodotus:herodotus-scheduler; repeatable",
    )
    group.add_argument(
        "--ingest-audience",
        default=AUDIENCE,
        metavar="NAME",
        help="required audience of senders' tokens (default %(default)s)",
    )
    group.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="senders present a certificate of this authority instead of a token; its common name is USER",
    )
    group.add_argument(
        "--ingest-quota",
        type=ByteSize(1, "500Ki or 2Mi"),
        metavar="SIZE",
        help="compressed bytes that each cluster may send per second to each process, such as 2Mi; more is refused with"
        " 429 and waits in that cluster's spool (default: no limit)",
    )
    group.add_argument(
        "--insecure", action="store_true", help="accept unauthenticated ingest from any client, not only from loopback"
    )


def _add_tracing_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--otlp-endpoint",
        type=_parse_http_url,
        metavar="URL",
        help="export a span for each stored attempt over OTLP/HTTP to this receiver, such as http://collector:4318;"
        " needs the packages of the extra otlp",
    )


def add_database_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that set the location of the database."""
    store = parser.add_argument_group("store").add_mutually_exclusive_group()
    store.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="directory of the SQLite database, created at the first start (default $XDG_STATE_HOME/herodotus)",
    )
    store.add_argument(
        "--database-url",
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST,HOST/DATABASE instead of --data; of several hosts the one that"
        " accepts writes (default: the environment variable HERODOTUS_DATABASE_URL, the place for a password)",
    )


def _add_store_flags(parser: argparse.ArgumentParser) -> None:
    add_database_flags(parser)
    parser.add_argument(
        "--archive",
        type=parse_archive_url,
        metavar="URL",
        help="answer about decisions that the database no longer has from this archive, which the command `archive`"
        " writes: s3://BUCKET/PREFIX or a directory; needs the packages of the extra archive",
    )
    parser.add_argument_group("replicas of the database").add_argument(
        "--read-database-url",
        metavar="URL",
        help="answer readers from these replicas of the PostgreSQL database where they are at most 5 seconds behind:"
        " postgresql://USER@HOST,HOST/DATABASE (default: the environment variable HERODOTUS_READ_DATABASE_URL, the"
        " place for a password; without it, from the primary)",
    )


def _add_retention_flags(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("retention (by time of ingest; records over a limit are removed within seconds)")
    limits.add_argument(
        "--max-age",
        type=parse_duration,
        default="7d",
        metavar="TIME",
        help="age limit of full records, with every node: 12h, 7d (default %(default)s)",
    )
    limits.add_argument(
        "--max-age-of",
        action="append",
        type=_parse_age_of,
        metavar="SCOPE=TIME",
        help="other age limit for a namespace or a cluster, repeatable: noisy=1h,"
        " CLUSTER/noisy=1h, CLUSTER/=30d (CLUSTER: the UID of its namespace kube-system)",
    )
    limits.add_argument(
        "--summary-max-age",
        type=parse_duration,
        default="30d",
        metavar="TIME",
        help="age limit of summaries: the chosen node, the next five, and counts of verdicts; if not above --max-age,"
        " there are none (default %(default)s)",
    )
    limits.add_argument(
        "--summary-max-age-of",
        action="append",
        type=_parse_age_of,
        metavar="SCOPE=TIME",
        help="other age limit of summaries for a namespace or cluster, as --max-age-of",
    )
    limits.add_argument(
        "--summary-max-bytes",
        type=_DATABASE_SIZE,
        default="1Gi",
        metavar="SIZE",
        help="size limit of all summaries; the oldest are removed first (default %(default)s)",
    )
    limits.add_argument(
        "--max-bytes",
        type=_DATABASE_SIZE,
        default="4Gi",
        metavar="SIZE",
        help="size limit of the database: 500Mi, 4Gi; the oldest full records become summaries, then"
        " summaries are removed"
        " (default %(default)s)",
    )
    limits.add_argument(
        "--history-max-age",
        type=parse_duration,
        default="90d",
        metavar="TIME",
        help="age limit of node histories, which outlive their decisions (default %(default)s)",
    )
    limits.add_argument(
        "--retention-unbounded",
        action="store_true",
        help="trust this machine's clock at the start, and remove everything over its age at once; without it, at"
        " most a quarter of the decisions is removed in a day",
    )


def _parse_http_url(value: str) -> str:
    try:
        parsed = urlsplit(value)
        valid = parsed.scheme in ("http", "https") and bool(parsed.hostname) and parsed.port != 0
    except ValueError:  # the port is no number of 16 bits
        valid = False
    if not valid or parsed.query or parsed.fragment:
        raise argparse.ArgumentTypeError(f"{value!r} is not a URL such as http://HOST:4318")
    return value


def _parse_sender(value: str) -> tuple[str, str]:
    user, _, cluster = value.partition("=")
    if not user or "=" in cluster:
        raise argparse.ArgumentTypeError(f"{value!r} is not USER or USER=CLUSTER")
    return user, cluster


def parse_duration(value: str) -> float:
    """Return the seconds of a time such as 90s, 12h or 7d. Raises argparse.ArgumentTypeError for other texts."""
    match = re.fullmatch(r"([0-9]{1,12})([smhd])", value)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{value!r} is not a time of at most 36500d, such as 90s, 12h or 7d")
    return float(seconds)


def _parse_age_of(value: str) -> tuple[str, float]:
    scope, equals, age = value.partition("=")
    if not equals or scope.strip("/") == "" or scope.startswith("/") or scope.count("/") > 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not NAMESPACE=TIME, CLUSTER/NAMESPACE=TIME or CLUSTER/=TIME")
    return scope, parse_duration(age)


class _IntegerInRange:
    """A converter for argparse of an integer from `minimum` to `maximum`, which has at most three digits."""

    def __init__(self, minimum: int, maximum: int) -> None:
        self._minimum, self._maximum = minimum, maximum

    def __call__(self, value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,3}", value) or not self._minimum <= int(value) <= self._maximum:
            raise argparse.ArgumentTypeError(f"{value!r} is not a number from {self._minimum} to {self._maximum}")
        return int(value)
