"""Places hypothetical pods one after the other on a copy of the cluster's state."""
