"""Many verified answers of `hsdns serve` while its cluster changes: none may be stale or wrong, and a freeze is found.

`make bench-verdicts` runs it.
"""
