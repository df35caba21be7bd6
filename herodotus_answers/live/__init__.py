"""What only the API server knows: the state that a pod or a workload is really in, its causes, and who has to act."""
