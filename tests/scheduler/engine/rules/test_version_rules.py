"""Version rules: in which versions each holds."""

from __future__ import annotations

import pytest

from herodotus_record.kubernetes_version import KubernetesVersion
from scheduler.engine.rules import DEFAULT_RULES, Rules
from scheduler.engine.rules.rules import UnknownKubernetesVersionError
from scheduler.engine.rules.version_rules import SIDECAR_PORTS, VERSION_RULES


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
