"""The formats from which `import-trace` makes a trace, each with its files.

Owns: which formats there are. Does not own: reading them (`importing`, `azure`, `borg`, `records`,
`cluster_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from herodotus_record.units import pluralize
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.azure import import_azure_packing
from scheduler.offline.traces.borg import import_borg
from scheduler.offline.traces.cluster_states import import_cluster_states
from scheduler.offline.traces.document import Event, TraceContent, sort_events
from scheduler.offline.traces.importing import CSV_MISSING, OPENB_MISSING, import_csv, import_openb
from scheduler.offline.traces.records import import_records

_SEVERAL: Final = "…"


class ImportFormat(NamedTuple):
    """A format of traces. `files` names its files in order, and `read` gets their paths.

    The last name ends with an ellipsis if there may be several such files.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[..., TraceContent]

    def accepts(self, number: int) -> bool:
        """Return whether this number of files can be read."""
        return number == len(self.files) or (number > len(self.files) and self.files[-1].endswith(_SEVERAL))


def import_trace(name: str, paths: Sequence[Path]) -> TraceContent:
    """Return a trace of the format `name`. Raise TraceError for a wrong number of files, or one that cannot be read."""
    imported = FORMATS[name]
    if not imported.accepts(len(paths)):
        raise TraceError(f"{name}: expected {' '.join(imported.files)}, found {pluralize(len(paths), 'file')}")
    return imported.read(*paths)


def _read_lists(
    read: Callable[[Path, Path], Iterable[Event]], missing: Sequence[str]
) -> Callable[[Path, Path], TraceContent]:
    return lambda nodes, pods: TraceContent(sort_events(read(nodes, pods)), [*missing])


FORMATS: Final[Mapping[str, ImportFormat]] = {
    "azure-packing": ImportFormat("Azure Trace for Packing 2020", ("MACHINES", "SQLITE"), import_azure_packing),
    "borg": ImportFormat("Google's Borg traces of 2019", ("MACHINES", "COLLECTIONS", "INSTANCES"), import_borg),
    "cluster": ImportFormat(
        "states of a cluster, from snapshot or kubectl get -o yaml", ("STATE…",), import_cluster_states
    ),
    "csv": ImportFormat("our own columns", ("NODES", "PODS"), _read_lists(import_csv, CSV_MISSING)),
    "records": ImportFormat("exported records of a decisions service", ("EXPORT…",), import_records),
    "openb": ImportFormat("Alibaba's GPU trace of 2023", ("NODES", "PODS"), _read_lists(import_openb, OPENB_MISSING)),
}
