"""What all servers of the project share: TLS contexts, self-signed certificates, and the HTTP server.

Imports no other package of the project except the escaping of log lines; `programs` starts each server.
"""
