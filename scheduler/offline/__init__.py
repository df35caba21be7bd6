"""Tools on the same engine that bind nothing: evaluate, what-if, replay, observe, read-log."""
