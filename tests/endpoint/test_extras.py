"""Flags and commands whose packages are not installed name the extra and the command that installs it."""

from pathlib import Path

import pytest
import tomllib

from herodotus_endpoint import __main__ as program
from herodotus_endpoint import extras, options
from herodotus_endpoint.store import Store, sqlite_url

ROOT = Path(__file__).parents[2]
DISTRIBUTION = ROOT / "packages" / "servers" / "pyproject.toml"


def test_every_extra_of_the_distribution_is_known() -> None:
    project = tomllib.loads(DISTRIBUTION.read_text())["project"]
    assert set(extras.MODULES) == set(project["optional-dependencies"])


def test_the_packages_of_every_extra_are_installed_here() -> None:
    for extra in extras.MODULES:
        extras.require_extra(extra, "this test")


@pytest.mark.parametrize(
    ("extra", "needed_by", "arguments"),
    [
        ("otlp", "--otlp-endpoint", ["--otlp-endpoint", "http://127.0.0.1:4318"]),
        ("archive", "--archive", ["--archive", "archived"]),
        ("archive", "`archive`", ["archive", "--to", "archived"]),
        ("parquet", "--format parquet", ["export", "--format", "parquet", "-o", "exported"]),
    ],
    ids=["--otlp-endpoint", "--archive", "archive", "export"],
)
def test_missing_packages_are_a_one_line_error(
    extra: str,
    needed_by: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(extras.MODULES, extra, ("no_such_package.module",))
    Store(sqlite_url(tmp_path / options.FILE)).close()  # `export` and `archive` need one
    assert program.main([*arguments, "--data", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"error: {needed_by} needs the packages of the extra {extra}: {ROOT / 'install.sh'} --with {extra}"
    )
    assert not {"archived", "exported"} & {each.name for each in tmp_path.iterdir()}
