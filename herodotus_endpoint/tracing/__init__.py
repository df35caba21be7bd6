"""Export of scheduling attempts as OpenTelemetry spans (`--otlp-endpoint`).

Owns: what a span says, the queue in front of the exporter, the exporter's thread. Does not own: which records are
stored (`store`), the OTLP protocol (the packages of the extra `otlp`).

A pod is one trace, whose ID is the pod's UID. Each scheduling attempt is a span of it, and each phase of the attempt is
a child. Only `spans` and `exporter` import OpenTelemetry, and the service imports these two only with the flag.

Invariant: ingest never waits for an export. A record that finds the queue full is dropped and counted.
"""
