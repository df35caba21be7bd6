"""The one word for "a decision", shared by everyone. Leaf: imports no other room."""
