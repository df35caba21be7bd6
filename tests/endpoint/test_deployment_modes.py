"""Two shapes of installation; each other one is refused, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from herodotus_endpoint import __main__ as command
from herodotus_endpoint.deployment_modes import DeploymentMode, DeploymentModeError, check_mode

ANYWHERE = ("0.0.0.0",)
SQLITE = DeploymentMode(
    sqlite=True,
    replicas=False,
    aggregated_api=False,
    workers=1,
    tls=False,
    insecure=False,
    senders=False,
    client_ca=False,
    hosts=ANYWHERE,
    ingest_hosts=("127.0.0.1",),
)
POSTGRESQL = replace(
    SQLITE, sqlite=False, aggregated_api=True, workers=2, tls=True, senders=True, ingest_hosts=ANYWHERE
)


@pytest.mark.parametrize(
    "mode",
    [
        SQLITE,
        POSTGRESQL,
        replace(SQLITE, insecure=True, ingest_hosts=ANYWHERE),
        replace(SQLITE, senders=True, tls=True, ingest_hosts=ANYWHERE),
        replace(SQLITE, senders=True, hosts=("::1", "localhost")),
        replace(POSTGRESQL, client_ca=True),
        replace(SQLITE, sqlite=False, hosts=("127.0.0.1", "::1")),
    ],
    ids=["SQLite", "PostgreSQL", "insecure", "SQLite with TLS", "tokens on loopback", "certificates", "a developer's"],
)
def test_accepts_supported_modes(mode: DeploymentMode) -> None:
    check_mode(mode)


@pytest.mark.parametrize(
    ("mode", "changes", "reason"),
    [
        (SQLITE, {"aggregated_api": True, "tls": True}, "--aggregated-api needs PostgreSQL: a SQLite database has one"),
        (SQLITE, {"workers": 2}, "--workers needs PostgreSQL: a SQLite database has one writer"),
        (SQLITE, {"replicas": True}, "--read-database-url needs PostgreSQL: a SQLite database has no replicas"),
        (POSTGRESQL, {"aggregated_api": False}, "PostgreSQL off loopback needs --aggregated-api"),
        (POSTGRESQL, {"tls": False}, "--aggregated-api needs --tls-cert-file"),
        (POSTGRESQL, {"insecure": True}, "--insecure and --aggregated-api"),
        (SQLITE, {"insecure": True, "senders": True}, "--insecure and --ingest-sender are incompatible"),
        (SQLITE, {"client_ca": True, "senders": True}, "--client-ca-file needs --tls-cert-file"),
        (SQLITE, {"client_ca": True, "tls": True}, "--client-ca-file needs --ingest-sender"),
        (SQLITE, {"senders": True, "ingest_hosts": ANYWHERE}, "--ingest-sender off loopback needs --tls-cert-file"),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)
def test_rejects_unsupported_modes_with_the_reason(mode: DeploymentMode, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DeploymentModeError) as refused:
        check_mode(replace(mode, **changes))
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--data", "d", "--aggregated-api"], "--aggregated-api needs PostgreSQL"),
        (["--data", "d", "--tls-cert-file", "c"], "--tls-cert-file and --tls-private-key-file go together"),
        (["--data", "d", "--ingest-sender", "a=b=c"], "'a=b=c' is not USER or USER=CLUSTER"),
    ],
)
def test_command_prints_the_reason_and_exits_with_2(
    flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(flags)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err


def test_sender_with_token_requires_an_api_server_at_start(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    flags = ["--data", str(tmp_path), "--ingest-sender", "user", "--kubeconfig", str(tmp_path / "none")]
    assert command.main(flags) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: kubeconfig ")
