"""A demonstration of `hsdns load`: servers under a cluster that changes, side by side in one report.

`make load-demo` runs it in half a minute; with a CoreDNS binary that HSDNS_PEER names it shows that beside hsdns.
"""
