"""What writes measurements on nodes: one file an annotator. `controller` runs them, round after round."""
