"""What our servers do alike: the TLS context, a certificate of their own, answers that hold, a server in a thread.

A leaf: imports nothing of ours. Owns neither listeners nor what an answer means.
"""
