"""A demonstration of `hsdns load`: servers of a changing cluster, side by side in one report.

`make load-demo` runs it in half a minute; if HSDNS_PEER names a CoreDNS binary, it is included.
"""
