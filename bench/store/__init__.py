"""The decisions service's store: size at rest, ingest and CPU of real decisions. See `bench.store.__main__`."""
