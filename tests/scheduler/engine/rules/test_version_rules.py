"""Version rules: in which versions each holds."""

from __future__ import annotations

import ast

import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.engine.rules import DEFAULT_RULES, Rules, version_rules
from scheduler.engine.rules.rules import UnknownKubernetesVersionError
from scheduler.engine.rules.version_rules import SIDECAR_PORTS, VERSION_RULES
from tests.processes import ROOT


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.33.5", (33, 5)),
        ("1.33.5", (33, 5)),
        ("v1.33.5-gke.1308000", (33, 5)),
        ("v1.34.2+k3s1", (34, 2)),
        ("1.34", (34, 9)),
        ("v1.31.14-eks-aa11bb", (31, 14)),
    ],
)
def test_versions_of_vendors_are_read(text: str, version: tuple[int, int]) -> None:
    assert KubernetesVersion.parse(text) == version


@pytest.mark.parametrize("text", ["", "latest", "v2.1.0", "v1", "v1.x", "1.34.", "v1.34.2extra"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid Kubernetes version"):
        KubernetesVersion.parse(text)


@pytest.mark.parametrize(
    ("version", "holds"),
    [("v1.33.5", False), ("v1.33.6", True), ("v1.34.0", True), ("v1.32.13", False), ("v1.36.0", True)],
)
def test_a_patch_release_can_bring_a_rule(version: str, holds: bool) -> None:
    assert Rules.from_settings({}, KubernetesVersion.parse(version)).enabled(SIDECAR_PORTS) is holds


def test_the_default_version_has_every_rule_that_older_ones_lack() -> None:
    lacking = [rule.name for rule in VERSION_RULES if not DEFAULT_RULES.enabled(rule.name)]
    assert lacking == [rule.name for rule in VERSION_RULES if min(rule.since) > DEFAULT_RULES.version]


@pytest.mark.parametrize("version", [KubernetesVersion(30, 0), KubernetesVersion(38, 0)])
def test_unknown_versions_are_refused(version: KubernetesVersion) -> None:
    with pytest.raises(UnknownKubernetesVersionError, match=r"known are v1\.31 to v1\.37"):
        Rules.from_settings({}, version)


def test_an_undeclared_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        DEFAULT_RULES.enabled("NoSuchRule")


def test_every_rule_is_used_and_every_rule_that_code_asks_for_is_declared() -> None:
    declared = {name for name, value in vars(version_rules).items() if isinstance(value, str) and name.isupper()}
    assert {vars(version_rules)[name] for name in declared} == {rule.name for rule in VERSION_RULES}
    asked: set[str] = set()
    texts = (file.read_text() for file in (ROOT / "scheduler").rglob("*.py"))
    for text in texts:
        for item in ast.walk(ast.parse(text)) if version_rules.__name__ in text else ():
            if isinstance(item, ast.ImportFrom) and item.module == version_rules.__name__:
                asked.update(alias.name for alias in item.names)
    assert asked - {"VERSION_RULES", "VersionRule"} == declared


@pytest.mark.parametrize(("emulated", "is_on"), [("1.34", False), ("1.36", True), (None, True)])
def test_an_emulated_version_sets_gates_and_no_version_rules(emulated: str | None, is_on: bool) -> None:
    older = KubernetesVersion.parse(emulated) if emulated else None
    rules = Rules.from_settings({}, KubernetesVersion(36, 2), older)
    assert rules.enabled("DRAExtendedResource") is is_on
    assert all(rules.enabled(rule.name) == DEFAULT_RULES.enabled(rule.name) for rule in VERSION_RULES)
    assert str(rules) == ("v1.36.2 (emulating v1.34)" if emulated == "1.34" else "v1.36.2")


@pytest.mark.parametrize("emulated", [KubernetesVersion(30, 0), KubernetesVersion(37, 0)])
def test_versions_that_a_program_does_not_emulate_are_refused(emulated: KubernetesVersion) -> None:
    with pytest.raises(UnknownKubernetesVersionError, match=r"is not between v1\.31 and v1\.36"):
        Rules.from_settings({}, KubernetesVersion(36, 2), emulated)
