"""How far the shipper is, as it tells the scheduler's process: one small file in the spool directory.

Owns: the file and what it says. Does not own: delivery (`shipper`), what is made of it (metrics, health).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from scheduler.recorder.spool_reader import list_incarnations

FILE: Final = "shipper.json"


@dataclass(frozen=True)
class Progress:
    """Counts since the shipper's process began. Not synced to disk: it is worth nothing after a crash."""

    delivered: int = 0  # frames that the service acknowledged
    refused: int = 0  # frames that it refuses for good
    lost: int = 0  # records that were damaged or deleted in the spool
    caught_up_s: float = 0.0  # Unix time when nothing was left to deliver; 0: never yet
    error: str = ""  # what keeps it from delivering now

    def write(self, directory: Path) -> None:
        """Tell it. OSError when the file cannot be written."""
        new = directory / f"{FILE}.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(directory / FILE)

    @classmethod
    def read(cls, directory: Path) -> Progress:
        """What was told last; nothing where there is no file."""
        try:
            return cls(**json.loads((directory / FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return cls()


def count_waiting_bytes(directory: Path) -> int:
    """What is in the spool and not acknowledged yet."""
    return sum(spool.count_waiting_bytes() for spool in list_incarnations(directory))
