"""A demonstration of `hsdns load`: servers under a cluster that changes, with the reports as pages.

`make load-demo` runs it in half a minute; with a CoreDNS binary that HSDNS_PEER names it takes twice as long.
"""
