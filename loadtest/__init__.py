"""Measurements of the whole server from outside, beside its peer and in one run: `make bench-watch`.

Nothing in hsdns imports this package; it imports hsdns only for the wire format.
"""
