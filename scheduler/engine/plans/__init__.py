"""Plans: the fewest changes of a cluster after which pods fit, each proven by carrying it out on a copy."""
