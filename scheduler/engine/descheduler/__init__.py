"""What the descheduler of kubernetes-sigs would evict by a policy, and where their successors would land."""
