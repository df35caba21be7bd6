"""The Kubernetes client that all servers share.

`credentials` finds the API server's address and credentials, `http` sends requests, `watch` lists and watches, `lease`
elects a leader. Only `http` imports the HTTP library.
"""
