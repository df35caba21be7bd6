"""A kube-scheduler compatible scheduler that records every scheduling cycle. It imports no web or terminal library."""
