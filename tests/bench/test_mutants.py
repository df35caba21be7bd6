"""The mutants of `make mutants`: their sample, and what their tests notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import mutants
from bench.mutants import KILLED, SURVIVED, Mutant, draw_sample, judge, list_places, list_tests

MODULE = "herodotus_record/limits.py"
CODE = """from __future__ import annotations


def is_large(size: int | None) -> bool:
    return size is not None and size > 3


def is_small(size: int) -> bool:
    return size < 2
"""
TESTS = """from herodotus_record.limits import is_large


def test_is_large() -> None:
    assert [is_large(each) for each in (None, 3, 4)] == [False, False, True]
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {MODULE: CODE, "herodotus_record/__init__.py": "", "tests/record/test_limits.py": TESTS}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n    wide\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    return tmp_path


def test_sample_is_that_of_its_seed_and_has_no_change_of_annotations(tree: Path) -> None:
    places = list_places("record")
    sample = draw_sample(places, 1000, 7)
    assert sample == draw_sample(places, 1000, 7) != draw_sample(places, 1000, 8)
    assert 0 < len(sample) < len(places)
    assert not any("int |" not in mutant.apply(CODE) for mutant in sample)
    assert draw_sample(places, 3, 7) == sample[:3]


def test_only_a_change_that_no_test_notices_survives(tree: Path) -> None:
    compared = [Mutant(MODULE, f"core/ReplaceComparisonOperator_{name}", 0) for name in ("Gt_GtE", "Lt_LtE")]
    assert all(mutant.apply(CODE) != CODE for mutant in compared)
    assert [judge(mutant, "record", tree) for mutant in compared] == [KILLED, SURVIVED]
    assert (tree / MODULE).read_text() == CODE
    assert "+    return size <= 2" in compared[1].describe()


def test_nearest_tests_are_tried_first() -> None:
    assert list_tests("herodotus_endpoint/access/masking.py", "access") == [
        "tests/endpoint/access/test_masking.py",
        "tests/endpoint/access",
    ]
    for part, package in mutants.PARTS.items():
        assert list_tests(f"{package}/no_such_module.py", part), part


def test_migrations_have_no_mutants() -> None:
    modules = {each.module for each in list_places("store")}
    assert "herodotus_endpoint/store/writer.py" in modules
    assert not any("/migrations/" in module for module in modules)
