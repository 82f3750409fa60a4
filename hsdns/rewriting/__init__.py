"""Rewrite rules, which change queries before the rest of the chain and replies after it; no I/O, no clock."""
