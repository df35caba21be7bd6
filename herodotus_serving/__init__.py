"""What our HTTPS servers do alike: the TLS context of the next connection, answers that hold for seconds.

A leaf: imports nothing of ours. Owns neither listeners nor what an answer means.
"""
