"""Imports the Azure Trace for Packing 2020: requests for virtual machines, and the shares of machines that they take.

Owns: its tables `vm` and `vmType` of a SQLite file, and what of them becomes events. The published schema is in
AzureTracesForPacking2020.md of github.com/Azure/AzurePublicDataset. Hadary et al., "Protean: VM Allocation Service at
Scale", OSDI 2020, describe the cluster.

A type of virtual machines takes other shares of machines of other types, and the requests of a pod do not depend on its
node. So there is one type of machines, and those virtual machines that run on it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from herodotus_record.units import pluralize
from scheduler.offline.traces import TraceError
from scheduler.offline.traces.document import NodeAdded, PodArrived, TraceContent, sort_events
from scheduler.offline.traces.rows import build_machine, build_pod, build_shares, parse_number, read_rows, require_text

OTHERS: Final = ("hdd", "ssd", "nic")
DOMAIN: Final = "azure.com"
_DAY_S: Final = 86_400
_HIGH_PRIORITY: Final = 0  # in the file; 1 is low
_MAX_MACHINES: Final = 10**6
_MISSING: Final = (
    "Amounts are shares of a machine: 1000 cpu and 1 TB of memory are a whole one, 1000000 of its disks and network.",
    "Virtual machines that ran when the trace begins arrive at once; they ran for longer than their pods.",
    "The end of a virtual machine of low priority is that of its eviction, if it was evicted.",
    "The machines on which virtual machines ran, and rules about them, are unknown.",
)


def import_azure_packing(machines: Path, database: Path) -> TraceContent:
    """Return the events of a SQLite file of the Azure Trace for Packing 2020.

    `machines` is a CSV file of one row: `machine`, a `machineId` of the table vmType, and `count`. Raise TraceError for
    a file that cannot be read.
    """
    rows = [*read_rows(machines)]
    if len(rows) != 1:
        raise TraceError(f"{machines}: expected one type of machines, found {len(rows)}")
    ((where, row),) = rows
    machine, count = require_text(where, row, "machine"), parse_number(where, row, "count")
    if not 1 <= count <= _MAX_MACHINES:
        raise TraceError(f"{where}: count: expected a number from 1 to {_MAX_MACHINES}, found {count}")
    whole = build_shares(1.0, 1.0, {f"{DOMAIN}/{name}": 1.0 for name in OTHERS})
    width = len(str(count - 1))
    nodes = [NodeAdded(0.0, build_machine(f"machine-{i:0{width}}", whole)) for i in range(count)]
    types, virtual_machines, others = _read_tables(database, machine)
    pods = []
    for vm, tenant, kind, priority, start, end in virtual_machines:
        pod = build_pod(f"vm-{vm}", types[kind], labels={"tenant": str(tenant), "type": str(kind)})
        pod = replace(pod, spec=replace(pod.spec, priority=int(priority == _HIGH_PRIORITY)))
        pods.append(PodArrived(max(0.0, start * _DAY_S), pod, ended_at_s=None if end is None else end * _DAY_S))
    left_out = [f"{pluralize(others, 'virtual machine')} cannot run on machine {machine}."] if others else []
    return TraceContent(sort_events([*nodes, *pods]), [*_MISSING, *left_out])


def _read_tables(database: Path, machine: str) -> tuple[dict[Any, Any], Sequence[Any], int]:
    """Return the requests by type, the rows of virtual machines of these types, and the number of all others.

    Those that had ended before the trace begins are left out.
    """
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            types = dict(_read_types(connection, machine))
            query = "SELECT vmId, tenantId, vmTypeId, priority, starttime, endtime FROM vm ORDER BY starttime, vmId"
            rows = [row for row in connection.execute(query) if row[5] is None or row[5] > 0]
    except sqlite3.Error as e:
        raise TraceError(f"{database}: {e}") from e
    if not types:
        raise TraceError(f"{database}: no type of virtual machines runs on machine {machine} (table vmType, machineId)")
    if any(not isinstance(row[4], (int, float)) or not isinstance(row[5], (int, float, type(None))) for row in rows):
        raise TraceError(f"{database}: table vm: starttime and endtime: expected days")
    fitting = [row for row in rows if row[2] in types]
    return types, fitting, len(rows) - len(fitting)


def _read_types(connection: sqlite3.Connection, machine: str) -> Iterator[tuple[Any, Any]]:
    query = f"SELECT vmTypeId, core, memory, {', '.join(OTHERS)} FROM vmType WHERE CAST(machineId AS TEXT) = ?"
    for kind, *shares in connection.execute(query, (machine,)):
        cpu, memory, *others = [float(share or 0) for share in shares]
        yield kind, build_shares(cpu, memory, dict(zip((f"{DOMAIN}/{name}" for name in OTHERS), others, strict=True)))
