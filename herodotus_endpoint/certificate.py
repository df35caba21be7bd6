"""The `certificate` command: create the service's certificate once and keep it in a Secret.

It runs in an init container and writes the certificate into a directory from which the service reads it. The empty
Secret exists already, so the command's role is limited to that one object, and clients mount its `ca.crt`. No manifest,
no values file and no Helm release contains the key.

Owns: when a certificate is created, the Secret, the files. Does not own: the contents of a certificate
(`herodotus_serving.self_signed`), serving it (`tls`).

Invariant: a certificate in the Secret is kept until RENEW_BEFORE its end. If two processes create one at the same time,
the API server accepts one; the other fails and reads the accepted one after its restart.
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

from herodotus_kube.client import KubeClient, KubeError
from herodotus_kube.credentials import KubeconfigError, find_credentials
from herodotus_record.escaping import escape
from herodotus_serving.self_signed import create_self_signed, parse_expiry

COMMAND: Final = "certificate"
VALID_FOR: Final = timedelta(days=3650)  # it ends only where nobody starts the service for that long
RENEW_BEFORE: Final = timedelta(days=365)  # at a start: what ends sooner might end before the next one
CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"

Data = dict[str, bytes]


def main(argv: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    arguments = build_parser().parse_args(argv)
    try:
        api = KubeClient(find_credentials(kubeconfig=arguments.kubeconfig), "herodotus-endpoint")
        try:
            pair = ensure_certificate(api, arguments.secret, arguments.host, datetime.now(timezone.utc))
        finally:
            api.close()
        write_certificate(arguments.directory, pair)
    except (KubeconfigError, KubeError, OSError) as e:
        print(f"error: no certificate: {escape(str(e))}", file=sys.stderr)
        return 1
    return 0


def ensure_certificate(api: KubeClient, secret: tuple[str, str], host: str, now: datetime) -> Data:
    """Return the certificate and key of the Secret; create them if it has none. Raises KubeError."""
    path = "/api/v1/namespaces/{}/secrets/{}".format(*secret)
    found = api.get(path)
    pair = _decode_secret(found)
    if not _is_usable(pair, now):
        key, certificate = create_self_signed([host], VALID_FOR)
        pair = {CERTIFICATE: certificate, KEY: key, AUTHORITY: certificate}
        encoded = {name: base64.b64encode(pem).decode() for name, pem in pair.items()}
        api.put(path, {**found, "data": encoded})  # with its resourceVersion: refused where somebody was quicker
    return pair


def write_certificate(directory: Path, pair: Data) -> None:
    """Write the certificate, its key and its authority into a directory. Raises OSError."""
    (directory / CERTIFICATE).write_bytes(pair[CERTIFICATE])
    key = os.open(directory / KEY, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(key, "wb") as file:
        file.write(pair[KEY])


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every flag of the command."""
    found = argparse.ArgumentParser(
        prog=f"python -m herodotus_endpoint {COMMAND}",
        description="Make a self-signed certificate once, keep it in a Secret, and write it to files for the service.",
    )
    found.add_argument(
        "--secret",
        required=True,
        type=_parse_secret_name,
        metavar="NAMESPACE/NAME",
        help="where it is kept, as tls.crt, tls.key and ca.crt; the Secret is there, and empty at first",
    )
    found.add_argument("--host", required=True, metavar="NAME", help="the service's name, which senders ask for")
    found.add_argument(
        "--directory", required=True, type=Path, metavar="DIR", help="where tls.crt and tls.key are written"
    )
    found.add_argument(
        "--kubeconfig", metavar="FILE", help="the API server to ask (default: the cluster around this pod)"
    )
    return found


def _decode_secret(secret: dict[str, Any]) -> Data:
    """Return the decoded data of a Secret; values that are not base64 are left out."""
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


def _parse_secret_name(value: str) -> tuple[str, str]:
    namespace, _, name = value.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"{value!r} is not NAMESPACE/NAME")
    return namespace, name
