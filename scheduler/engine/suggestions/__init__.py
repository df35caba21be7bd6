"""Suggestions: the smallest changes to a rejected pod or to a node after which the pod fits.

Owns: which changes answer which reason (`changes`), the check on the snapshot (`check`), the search and its limit of
time (`search`). Does not own: reasons (the plugins), sentences and commands (`herodotus_answers.suggestions`).
"""
