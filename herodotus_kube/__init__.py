"""Access to the Kubernetes API that the scheduler, the decisions service and the agents share.

`credentials` finds the API server's address and credentials; `client` is a JSON client for programs that send few
requests. The scheduler has its own connections (`scheduler.kube`) because it sends thousands of bindings a second.
"""
