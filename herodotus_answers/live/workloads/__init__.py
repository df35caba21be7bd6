"""What makes pods: Deployments, StatefulSets, DaemonSets, Jobs and CronJobs, and what keeps pods from being made."""
