"""Connection strings of PostgreSQL with one and several hosts, in both forms of libpq."""

from __future__ import annotations

import pytest

from herodotus_endpoint.store import StoreError, check_read_url, database_from_url
from herodotus_endpoint.store.connection_string import ConnectionString


@pytest.mark.parametrize(
    ("text", "name", "hosts"),
    [
        ("postgresql://u:secret@h/d", "postgresql://u:***@h/d", ["postgresql://u:***@h/d"]),
        (
            "postgresql://u@a:1,b:2/d?target_session_attrs=read-write",
            "postgresql://u@a:1,b:2/d",
            ["postgresql://u@a:1/d", "postgresql://u@b:2/d"],
        ),
        (
            "host=a,b,c port=5433 dbname=d user=u target_session_attrs=read-write",
            "postgresql://u@a:5433,b:5433,c:5433/d",
            ["postgresql://u@a:5433/d", "postgresql://u@b:5433/d", "postgresql://u@c:5433/d"],
        ),
        ("postgresql+psycopg://h/d", "postgresql://h/d", ["postgresql://h/d"]),
        ("postgres://a,b/d", "postgresql://a,b/d", ["postgresql://a/d", "postgresql://b/d"]),
    ],
)
def test_names_hosts_without_passwords(text: str, name: str, hosts: list[str]) -> None:
    found = ConnectionString.parse(text)
    assert found.name == name
    assert [each.name for each in found.split_hosts()] == hosts
    assert database_from_url(text).name == name
    check_read_url(text)


def test_the_role_replaces_that_of_the_string_and_options_are_added() -> None:
    found = ConnectionString.parse(
        "postgresql://a,b/d?target_session_attrs=any&options=-c%20geqo%3Doff&connect_timeout=9"
    )
    parameters = found.connection_parameters("read-write", "-c jit=off")
    assert parameters["target_session_attrs"] == "read-write"
    assert parameters["options"] == "-c geqo=off -c jit=off"
    assert parameters["connect_timeout"] == "9"
    assert (parameters["host"], parameters["dbname"]) == ("a,b", "d")


def test_with_several_hosts_each_has_less_time_to_connect() -> None:
    one, two = (ConnectionString.parse(f"postgresql://{hosts}/d") for hosts in ("a", "a,b"))
    assert one.connection_parameters("primary", "")["connect_timeout"] == "5"
    assert two.connection_parameters("primary", "")["connect_timeout"] == "2"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:se/cret@h/d",
        "postgresql://u:se@cret@h/d",
        "postgresql://u:cret@h:port/d",
        "host=a secret=cret",
        "postgresql://u:cret@a:1,b:2,c/d?port=1,2",
    ],
)
def test_refuses_what_is_wrong_without_naming_a_password(text: str) -> None:
    with pytest.raises(StoreError) as raised:
        database_from_url(text)
    assert "cret" not in str(raised.value)


def test_replicas_are_of_postgresql_only() -> None:
    with pytest.raises(StoreError, match="postgresql://HOST,HOST/DATABASE is supported"):
        check_read_url("sqlite:///file.db")
