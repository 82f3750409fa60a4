"""Benchmarks that compare the whole server with other servers in one run: `make bench`, `make bench-watch`.

Nothing in hsdns imports this package. It imports hsdns only for the wire format and the synthetic cluster.
"""
