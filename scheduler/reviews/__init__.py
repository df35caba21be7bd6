"""What would happen if: pods that nobody creates, decided against the live state.

Owns: what of an object is decided (`pods`), one pod after the other (`placing`), the copy of the state that this is
tried on (`copies`), asking the decisions service for reviews and answering them (`desk`, `reviewer`). Does not own: any
decision (`cycle`), who may ask (the decisions service), the answer's document (`herodotus_record.reviews`).
"""
