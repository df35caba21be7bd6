"""The metrics of records, spool and shipper.

Owns: their names and meaning. Does not own: how they are served.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from scheduler.recorder.recorder import Recorder
from scheduler.recorder.supervisor import Progress, Supervisor, count_waiting_bytes


def collect_metrics(
    spool: Path, limit_bytes: int, recorder: Recorder | None, supervisor: Supervisor | None
) -> Iterator[Metric]:
    """Yield the metrics of records, spool and shipper, without those of parts that have not started (None)."""
    if recorder is not None:
        yield GaugeMetricFamily("herodotus_recording", "0 with --no-record.", int(bool(recorder.incarnation)))
        yield CounterMetricFamily("herodotus_records", "Records written to the spool.", recorder.recorded)
        yield CounterMetricFamily(
            "herodotus_repeated_attempts",
            "Attempts that were counted on the record of the equal attempt before them.",
            recorder.repeated,
        )
        yield CounterMetricFamily("herodotus_records_dropped", "Records that found no room.", recorder.dropped)
        yield CounterMetricFamily(
            "herodotus_gap_records", "Gap records, which state the records that were dropped.", recorder.gaps
        )
        yield GaugeMetricFamily("herodotus_spool_bytes", "Size of the spool.", recorder.spool_bytes)
        yield CounterMetricFamily(
            "herodotus_spool_repairs",
            "Spool segments that were deleted or damaged, and written again.",
            recorder.spool_repairs,
        )
    yield GaugeMetricFamily("herodotus_spool_limit_bytes", "Size limit of the spool.", limit_bytes)
    yield GaugeMetricFamily(
        "herodotus_spool_waiting_bytes",
        "Bytes in the spool that are not delivered yet.",
        count_waiting_bytes(spool),
    )
    if supervisor is None:
        return
    progress = Progress.read(spool)
    yield GaugeMetricFamily("herodotus_shipper_up", "1 while the shipper process runs.", int(supervisor.running))
    yield CounterMetricFamily("herodotus_shipper_restarts", "Restarts of the shipper process.", supervisor.restarts)
    yield CounterMetricFamily("herodotus_shipper_delivered_frames", "Frames delivered.", progress.delivered)
    yield CounterMetricFamily("herodotus_shipper_refused_frames", "Frames refused for good.", progress.refused)
    yield CounterMetricFamily(
        "herodotus_shipper_lost_records", "Records that were damaged or deleted in the spool.", progress.lost
    )
    yield GaugeMetricFamily(
        "herodotus_shipper_caught_up_timestamp_seconds",
        "When nothing was left to deliver: now minus this is the lag while something waits.",
        progress.caught_up_s,
    )
