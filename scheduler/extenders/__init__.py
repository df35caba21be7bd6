"""HTTP extenders: the messages (`wire`), the connections (`transport`) and the client that a cycle uses (`client`)."""
