"""Takes the servers' rooms into their wheel: from two folders up in a clone, from beside this file in an sdist."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOMS = ("herodotus_serving", "scheduler", "herodotus_endpoint", "herodotus_agents", "herodotus_sim")


class Rooms(BuildHookInterface):  # type: ignore[type-arg]
    """Both targets, sdist and wheel: the same folders under their own names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version`: of the target, which is not asked for."""
        here = Path(self.root)
        top = here if (here / ROOMS[0]).is_dir() else here.parents[1]
        build_data["force_include"].update({str(top / room): room for room in ROOMS})
