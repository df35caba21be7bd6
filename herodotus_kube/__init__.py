"""The one Kubernetes client, for the scheduler, the observer, local mode, the decisions service and the agents.

`credentials` finds the API server's address and credentials, `http` sends requests, `watch` lists and watches, `lease`
elects a leader, `discovery` reads versions and the cluster's identity, `delegated_auth` asks the API server who a
reader is and what it may read, `published_authorities` reads the CAs that the server publishes, and `api_conventions`
has errors and pages of lists. Only `http` imports the HTTP library.
"""

from herodotus_record.lean_httpx import leave_out_command_line

leave_out_command_line()
