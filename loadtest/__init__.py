"""Measurements of the whole server from outside, beside its peers and in one run: `make bench`, `make bench-watch`.

Nothing in hsdns imports this package; it imports hsdns only for the wire format and for the made-up cluster.
"""
