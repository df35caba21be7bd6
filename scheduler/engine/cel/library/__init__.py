"""The functions that an expression may call, one module for each area."""
