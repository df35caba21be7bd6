"""Versions of Kubernetes as texts, and which stand for which patch."""

import pytest

from herodotus_record.kubernetes_version import (
    LATEST_PATCHES,
    NEWEST_MINOR,
    OLDEST_MINOR,
    KubernetesVersion,
    clamp_version,
)

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)


@pytest.mark.parametrize("minor", MINORS)
def test_a_version_without_a_patch_number_is_the_newest_known_patch(minor: int) -> None:
    assert KubernetesVersion.parse(f"v1.{minor}") == KubernetesVersion(minor, LATEST_PATCHES[minor])
    assert KubernetesVersion.parse(f"v1.{minor}") > KubernetesVersion(minor, 0)


def test_a_version_without_known_rules_has_those_of_the_nearest() -> None:
    assert clamp_version(KubernetesVersion(OLDEST_MINOR - 1, 9)) == KubernetesVersion(OLDEST_MINOR, 0)
    assert clamp_version(KubernetesVersion(NEWEST_MINOR + 1, 0)) == KubernetesVersion.parse(f"v1.{NEWEST_MINOR}")
    assert clamp_version(KubernetesVersion(NEWEST_MINOR, 99)) == KubernetesVersion(NEWEST_MINOR, 99)
