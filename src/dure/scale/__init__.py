"""How many replicas, how much of the elastic pool, which nodes. Pure."""
