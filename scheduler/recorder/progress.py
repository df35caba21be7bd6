"""The shipper's progress, which it reports to the scheduler's process in one small file of the spool directory.

Owns: the file and its content. Does not own: delivery (`shipper`), metrics and health checks made from it.
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
    """The shipper's counters since its process began, and its present error.

    They are not synced to disk, because a crash makes them worthless.
    """

    delivered: int = 0  # frames that the service acknowledged
    refused: int = 0  # frames that it refuses for good
    lost: int = 0  # records that were damaged or deleted in the spool
    caught_up_s: float = 0.0  # Unix time when nothing was left to deliver; 0: never yet
    error: str = ""  # what keeps it from delivering now

    def write(self, directory: Path) -> None:
        """Replace the progress file in the spool directory. Raise OSError if it cannot be written."""
        new = directory / f"{FILE}.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(directory / FILE)

    @classmethod
    def read(cls, directory: Path) -> Progress:
        """Return the progress that was last written to the spool directory, or zeros if the file cannot be read."""
        try:
            return cls(**json.loads((directory / FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return cls()


def count_waiting_bytes(directory: Path) -> int:
    """Return the number of bytes in the spool directory that the decisions service has not acknowledged."""
    return sum(spool.count_waiting_bytes() for spool in list_incarnations(directory))
