"""Adds the servers' packages to their wheel: from two folders up in a clone, from beside this file in an sdist."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOMS = (
    "herodotus_kube",
    "herodotus_serving",
    "scheduler",
    "herodotus_endpoint",
    "herodotus_agents",
    "herodotus_local",
    "herodotus_sim",
)


class PackageFolders(BuildHookInterface):  # type: ignore[type-arg]
    """Includes the same package folders in both targets, sdist and wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders to the build; `version` is the name of the target's version."""
        here = Path(self.root)
        top = here if (here / ROOMS[0]).is_dir() else here.parents[1]
        build_data["force_include"].update({str(top / room): room for room in ROOMS})
