"""Frameworks by other rules than those of the process, for questions about another version of Kubernetes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from scheduler.config import Configuration, Registry, build_profile
from scheduler.engine.framework.plugin import Handle
from scheduler.engine.framework.runtime import Framework
from scheduler.engine.rules import Rules


def rebuild_with_rules(
    config: Configuration, registry: Registry, handle: Handle
) -> Callable[[Rules], Callable[[str], Framework]]:
    """Return the function that builds the framework of a scheduler name with the rules that it is given.

    A name without a profile gets the framework of the first. No extender is called: it answers for one version only.
    """
    names: Sequence[str] = [profile.scheduler_name for profile in config.profiles]

    def build(rules: Rules, name: str) -> Framework:
        index = names.index(name) if name in names else 0
        return Framework(build_profile(config, index, registry, handle, rules), time.monotonic)

    return lambda rules: lambda name: build(rules, name)
