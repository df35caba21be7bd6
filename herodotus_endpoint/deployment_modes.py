"""The two supported modes of deployment, and the reasons against other combinations of flags.

    SQLite       one process on one volume; readers come through the API server's service proxy, which forwards no user
                 name, so the right to that proxy is the right to all records
    PostgreSQL   any number of replicas behind an APIService; the API server names each reader, and RBAC decides

On loopback, for development, PostgreSQL works without an API server.

Owns: which flags are compatible. Does not own: flags (`options`), databases (`store`). Pure.

Invariant: records and tokens cross a network unencrypted only with --insecure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from herodotus_serving.sockets import is_loopback_host


class DeploymentModeError(Exception):
    """The error for a combination of flags that is not supported; the message is one line with the reason."""


@dataclass(frozen=True)
class DeploymentMode:
    """The flags that decide how the service is deployed: with SQLite, or with PostgreSQL behind an APIService.

    `hosts` and `ingest_hosts` are the addresses on which the service listens for queries and for ingest.
    """

    sqlite: bool
    replicas: bool
    aggregated_api: bool
    workers: int
    tls: bool
    insecure: bool
    senders: bool
    client_ca: bool
    hosts: Sequence[str]
    ingest_hosts: Sequence[str]


def check_mode(mode: DeploymentMode) -> None:
    """Raise DeploymentModeError if the combination of flags is not supported."""
    for violated, reason in _rules(mode):
        if violated:
            raise DeploymentModeError(reason)


def _rules(s: DeploymentMode) -> list[tuple[bool, str]]:
    remote = not all(map(is_loopback_host, s.hosts))
    ingest_remote = not all(map(is_loopback_host, s.ingest_hosts))
    return [
        (
            s.sqlite and s.aggregated_api,
            "--aggregated-api needs PostgreSQL: a SQLite database has one replica, and an APIService whose only replica"
            " is down blocks the deletion of namespaces",
        ),
        (s.sqlite and s.replicas, "--read-database-url needs PostgreSQL: a SQLite database has no replicas"),
        (s.sqlite and s.workers > 1, "--workers needs PostgreSQL: a SQLite database has one writer"),
        (
            not s.sqlite and not s.aggregated_api and not s.insecure and remote,
            "PostgreSQL off loopback needs --aggregated-api: without it no reader is authenticated, and one service"
            " proxy cannot reach several replicas",
        ),
        (
            s.aggregated_api and not s.tls,
            "--aggregated-api needs --tls-cert-file: the API server connects with TLS only",
        ),
        (
            s.aggregated_api and s.insecure,
            "--insecure and --aggregated-api are incompatible: anyone could send records that readers trust",
        ),
        (s.insecure and s.senders, "--insecure and --ingest-sender are incompatible"),
        (s.client_ca and not s.tls, "--client-ca-file needs --tls-cert-file: client certificates require TLS"),
        (
            s.client_ca and not s.senders,
            "--client-ca-file needs --ingest-sender, which names the certificates and their clusters",
        ),
        (
            s.senders and not s.tls and ingest_remote,
            "--ingest-sender off loopback needs --tls-cert-file: tokens and records would cross the network"
            " unencrypted",
        ),
    ]
