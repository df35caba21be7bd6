"""The command `certificate`: creates the service's self-signed certificate once and keeps it in a Secret.

It runs in an init container and writes the certificate and key to a directory from which the service starts. The Secret
exists beforehand and is empty, so the command needs rights to that one object only. No manifest, chart value or release
history contains the key. The CA certificate alone is also published in a ConfigMap, which senders of records read
through the API server, without waiting until the kubelet updates a mounted Secret.

Owns: when a certificate is created, the Secret, the ConfigMap, the files. Does not own: the certificate's contents
(`herodotus_serving.certificates`), serving it (`server`).

Invariant: a certificate in the Secret is used unchanged, unless it expires within RENEW_BEFORE. If two processes create
one at the same time, the API server accepts one; the other process fails and uses that one when it is restarted.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from herodotus_kube.credentials import KubeconfigError, find_credentials
from herodotus_kube.http import ApiError, ApiServer
from herodotus_record.escaping import escape
from herodotus_serving.certificates import create_self_signed, parse_expiry, write_key_pair
from herodotus_serving.flag_types import parse_object_name

COMMAND: Final = "certificate"
VALID_FOR: Final = timedelta(days=3650)  # a start in the last year renews it
RENEW_BEFORE: Final = timedelta(
    days=365
)  # checked at a start; a certificate that expires sooner might do so before the next start
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"

Data = dict[str, bytes]


def main(argv: Sequence[str]) -> int:
    """Run the command `certificate` with these arguments and return the exit code: 0, or 1 after an error."""
    arguments = build_parser().parse_args(argv)
    try:
        api = ApiServer(find_credentials(kubeconfig=arguments.kubeconfig), user_agent="herodotus-endpoint")
        try:
            pair = ensure_certificate(api, arguments.secret, arguments.host, datetime.now(timezone.utc))
            if arguments.ca_configmap is not None:
                publish_authority(api, arguments.ca_configmap, pair[AUTHORITY])
        finally:
            api.close()
        write_key_pair(arguments.directory / CERTIFICATE, arguments.directory / KEY, pair[CERTIFICATE], pair[KEY])
    except (KubeconfigError, ApiError, OSError) as e:
        problem = e.describe() if isinstance(e, ApiError) else str(e)
        print(f"error: cannot provide a certificate: {escape(problem)}", file=sys.stderr)
        return 1
    return 0


def ensure_certificate(api: ApiServer, secret: tuple[str, str], host: str, now: datetime) -> Data:
    """Return the key and certificate in a Secret; create and store new ones if they are absent or expire soon.

    The result maps tls.crt, tls.key and ca.crt to PEM. `secret` is a pair of namespace and name. `host` is the DNS name
    of a new certificate. Raises ApiError if the Secret cannot be read or written.
    """
    path = "/api/v1/namespaces/{}/secrets/{}".format(*secret)
    stored = api.get_object(path)
    pair = _decode_secret(stored)
    if not _is_usable(pair, now):
        key, certificate = create_self_signed([host], VALID_FOR)
        pair = {CERTIFICATE: certificate, KEY: key, AUTHORITY: certificate}
        encoded = {name: base64.b64encode(pem).decode() for name, pem in pair.items()}
        # The resourceVersion makes the API server refuse a concurrent change.
        api.put(path, {**stored, "data": encoded})
    return pair


def publish_authority(api: ApiServer, config_map: tuple[str, str], pem: bytes) -> None:
    """Write a CA certificate (PEM) to the key ca.crt of a ConfigMap, unless the key has that value already.

    `config_map` is a pair of namespace and name. Raises ApiError if the ConfigMap cannot be read or written.
    """
    path = "/api/v1/namespaces/{}/configmaps/{}".format(*config_map)
    stored = api.get_object(path)
    published = stored.get("data") or {}
    if published.get(AUTHORITY) != pem.decode():
        api.put(path, {**stored, "data": {**published, AUTHORITY: pem.decode()}})


def build_parser() -> argparse.ArgumentParser:
    """Return the argument parser of the command `certificate`."""
    parser = argparse.ArgumentParser(
        prog=f"python -m herodotus_endpoint {COMMAND}",
        description="Make a self-signed certificate once, keep it in a Secret, and write it to files for the service.",
    )
    parser.add_argument(
        "--secret",
        required=True,
        type=parse_object_name,
        metavar="NAMESPACE/NAME",
        help="Secret for tls.crt, tls.key and ca.crt; it must exist and may be empty",
    )
    parser.add_argument(
        "--ca-configmap",
        type=parse_object_name,
        metavar="NAMESPACE/NAME",
        help="ConfigMap in which ca.crt is published for senders of records; it must exist and may be empty",
    )
    parser.add_argument("--host", required=True, metavar="NAME", help="DNS name of the service, as clients use it")
    parser.add_argument(
        "--directory", required=True, type=Path, metavar="DIR", help="directory to write tls.crt and tls.key to"
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig of the API server (default: the cluster of this pod)"
    )
    return parser


def _decode_secret(secret: dict[str, Any]) -> Data:
    """Return the decoded data of a Secret by key, or {} if a value is not valid base64."""
    try:
        return {name: base64.b64decode(value) for name, value in (secret.get("data") or {}).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def _is_usable(pair: Data, now: datetime) -> bool:
    try:
        return (
            all(map(pair.get, (CERTIFICATE, KEY, AUTHORITY))) and parse_expiry(pair[CERTIFICATE]) - now > RENEW_BEFORE
        )
    except ValueError:
        return False
