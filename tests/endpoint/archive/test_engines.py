"""The statements of docs/archive.md give the same results in every engine as the database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from herodotus_endpoint.archive.location import ArchiveLocation
from herodotus_endpoint.archive.writer import ArchiveOptions, archive_days
from tests.builders import CLUSTER
from tests.endpoint.service import Service
from tests.processes import ROOT

DOCUMENT = (ROOT / "docs" / "archive.md").read_text()


def statements(engine: str) -> list[str]:
    """Return the SQL statements below the line `ENGINE:` of the document, up to the next text."""
    part = DOCUMENT.split(f"\n{engine}:\n", 1)[1]
    found = re.match(r"(?:\s*```sql\n.*?```\n)+", part, re.DOTALL)
    assert found
    return re.findall(r"```sql\n(.*?)```", found[0], re.DOTALL)


def ask_duckdb(statement: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        found = connection.execute(statement)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def ask_clickhouse(statement: str) -> list[dict[str, Any]]:
    import chdb

    settings = " SETTINGS use_hive_partitioning = 1, output_format_json_quote_64bit_integers = 0"
    query: Callable[[str, str], object] = chdb.query
    text = str(query(statement + settings, "JSON"))
    return list(json.loads(text)["data"])


ENGINES: dict[str, Callable[[str], list[dict[str, Any]]]] = {"DuckDB": ask_duckdb, "ClickHouse": ask_clickhouse}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_documented_statements(source: Service, tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "archive"
    list(archive_days(source.store, ArchiveLocation(str(folder)), ArchiveOptions(delay_s=0.0)))
    first, second = (ENGINES[engine](text.replace("ARCHIVE", str(folder))) for text in statements(engine))
    assert first == [{"cluster": CLUSTER, "unschedulable": 3}]
    assert [(row["app"], row["nodes"]) for row in second] == [("app-0", 1), ("app-1", 1), ("app-2", 1)]
    if engine == "DuckDB":
        assert {row["slowest"].total_seconds() for row in second} == {0.02}
