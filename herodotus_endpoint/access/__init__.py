"""Authentication and authorization of readers, both delegated to the API server.

Owns: identities, rights, trust in the front proxy, masking. Does not own: routes.
"""
