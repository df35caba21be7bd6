"""The two supported deployment modes, and the check that refuses every other combination of flags.

Owns: valid combinations of flags. Does not own: flags (`options`), databases (`store`). Pure.

    SQLite       one process on one volume; readers come through the API server's service proxy, which does not name
                 them, so that the right to use the proxy is the right to read everything
    PostgreSQL   any number of replicas behind an APIService; the API server names each reader, and RBAC decides

For development PostgreSQL works on loopback without an API server.

Invariant: records and tokens do not cross a network unencrypted unless --insecure is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address


class DeploymentModeError(Exception):
    """A combination of flags that is not supported; the message is one line."""


@dataclass(frozen=True)
class DeploymentMode:
    """The flags that determine the mode. `hosts` and `ingest_hosts` are the addresses to listen on."""

    sqlite: bool
    aggregated_api: bool
    workers: int
    tls: bool
    insecure: bool
    senders: bool
    client_ca: bool
    hosts: Sequence[str]
    ingest_hosts: Sequence[str]


def check_mode(shape: DeploymentMode) -> None:
    """Raise DeploymentModeError if the flags match neither mode."""
    for wrong, why in _rules(shape):
        if wrong:
            raise DeploymentModeError(why)


def _rules(s: DeploymentMode) -> list[tuple[bool, str]]:
    abroad = not all(map(is_loopback, s.hosts))
    ingest_abroad = not all(map(is_loopback, s.ingest_hosts))
    return [
        (
            s.sqlite and s.aggregated_api,
            "--aggregated-api needs PostgreSQL: an APIService whose one replica is away holds up the deletion of"
            " namespaces, and a SQLite database has one replica",
        ),
        (s.sqlite and s.workers > 1, "--workers needs PostgreSQL: a SQLite database has one writer"),
        (
            not s.sqlite and not s.aggregated_api and not s.insecure and abroad,
            "PostgreSQL off loopback needs --aggregated-api: several replicas cannot be reached through one service"
            " proxy, and nobody would check who reads",
        ),
        (s.aggregated_api and not s.tls, "--aggregated-api needs --tls-cert-file: the API server speaks TLS alone"),
        (s.aggregated_api and s.insecure, "--insecure and --aggregated-api: records of anybody would be shown as true"),
        (s.insecure and s.senders, "--insecure and --ingest-sender contradict each other"),
        (s.client_ca and not s.tls, "--client-ca-file needs --tls-cert-file: certificates are shown over TLS"),
        (s.client_ca and not s.senders, "--client-ca-file needs --ingest-sender: whose certificates, of which cluster"),
        (
            s.senders and not s.tls and ingest_abroad,
            "--ingest-sender off loopback needs --tls-cert-file: tokens and records would cross the network in the"
            " clear",
        ),
    ]


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address; a name is compared without resolving it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
