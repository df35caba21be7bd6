"""Who asks, and what they may see: told by the API server, never decided here.

Owns: identities, rights, the trust in the front proxy. Does not own: routes, or what is hidden from whom (`masking`).
"""
