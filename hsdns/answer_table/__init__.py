"""The Python side of the answer table: which replies it stores, and what its hits count as.

fastpath/ is the table itself.  capabilities.py declares what handlers tell the answer table, policy.py judges blocks
and replies, writer.py stores replies, negative_zones.py has the zones in which names that do not exist share one
prepared reply, hits.py adds up what was answered and writes it to the query log.
"""
