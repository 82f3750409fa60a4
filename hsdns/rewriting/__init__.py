"""Rules that change queries on their way down the chain, and undo that in replies; no IO, no clock."""
