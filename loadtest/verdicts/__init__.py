"""The judge of `hsdns load` over right answers, altered ones, those of CoreDNS and those of `hsdns serve`.

`make bench-verdicts` runs it.
"""
