"""The Python side of the answer table: which replies it stores, and how its hits are counted.

fastpath/ is the table itself.  capabilities.py declares the protocols of handlers, policy.py decides about blocks and
replies, writer.py stores replies, negative_zones.py has the zones in which all names that do not exist share one
template, hits.py counts the hits and writes them to the query log.
"""
