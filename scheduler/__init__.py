"""A kube-scheduler compatible scheduler that records every cycle. Knows nothing of Flask, click or rich."""
