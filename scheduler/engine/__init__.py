"""The scheduling engine: pod, snapshot and seed in, result and trace out. Pure: no thread, no client, no clock."""
