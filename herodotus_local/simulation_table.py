"""Writes the figures of simulated runs as a Parquet file, for who analyses or plots them elsewhere.

A row is a figure of a run: variant, configuration, version, seed, the figure's name and its value. Figures have the
names that `simulate tune` takes. Those of moments have their time in `at_s`, which is null for the whole run.

Owns: the columns. Does not own: the figures. The module is imported on use, because pyarrow is an extra of the servers'
distribution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import parquet as pq

from herodotus_answers.simulation import Simulation

COMPRESSION: Final = "zstd"
COLUMNS: Final = pa.schema(
    [
        ("variant", pa.string()),
        ("configuration", pa.string()),  # its file; empty for the default profile
        ("kubernetes_version", pa.string()),
        ("seed", pa.int64()),
        ("at_s", pa.float64()),  # null for the whole run
        ("figure", pa.string()),
        ("value", pa.float64()),
    ]
)


def write_table(answer: Simulation, file: BinaryIO) -> None:
    """Write the figures of each run."""
    rows = [
        {
            "variant": variant["name"],
            "configuration": variant["configuration"],
            "kubernetes_version": variant["kubernetesVersion"],
            "seed": run["seed"],
            "at_s": at_s,
            "figure": figure,
            "value": value,
        }
        for variant in answer["variants"]
        for run in variant["runs"]
        for at_s, figure, value in _list_figures(run)
    ]
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), file, compression=COMPRESSION)


def _list_figures(run: Mapping[str, Any]) -> Iterator[tuple[float | None, str, float]]:
    """Yield time, name and value of each figure of a run, and of its moments."""
    for name, value in _list_numbers(run):
        if name != "seed":
            yield None, name, value
    for moment in run["moments"]:
        for name, value in _list_numbers(moment):
            if name != "atS":
                yield moment["atS"], name, value


def _list_numbers(part: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield name and value of each number; those of a resource or a label come after its name."""
    for name, value in part.items():
        if isinstance(value, int | float):
            yield name, float(value)
        elif isinstance(value, Mapping):
            for of, figure in value.items():
                if isinstance(figure, Mapping):  # of a resource
                    yield from ((f"{of}.{key}", float(number)) for key, number in figure.items())
                else:
                    yield f"{of}.{name}", float(figure)
