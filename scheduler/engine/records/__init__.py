"""Builds the record of a scheduling attempt from its trace."""
