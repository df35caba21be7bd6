"""What would have happened: replays a trace with another configuration, on virtual time."""
