"""Reviews: questions about pods that do not exist, which a scheduler or an observer decides on a copy of its state.

Owns: forking the copy (`forked_copies`), fetching reviews from the decisions service and posting the answers
(`review_client`, `reviewer`). Does not own: decisions (`cycle`), the pods and their placement (`engine.whatif`),
authorization of the reader (the decisions service), the answer's document (`herodotus_answers.placement_review`).
"""
