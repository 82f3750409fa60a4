"""Whether the answer table of a server stores a reply, and why not.

Path: explain.py -> here -> the policy that decides for queries as well.
"""

from __future__ import annotations

from hsdns.answer_table.policy import STORED_TYPES, BlockPolicy
from hsdns.cluster.freshness import Dependencies
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import Query, Reply


def table_use(
    policy: BlockPolicy, query: Query, reply: Reply, dependencies: Dependencies, *, is_cached: bool
) -> str:
    """What becomes of a reply, in a phrase; `is_cached` for one from an entry of `cache`."""
    if is_cached and policy.stores_cached:
        return "stored while `cache` has its entry"
    if policy.reason:
        return f"not stored: {policy.reason}"
    if policy.may_store(query, reply, dependencies):
        return "stored once it was asked for, until an object that it depends on changes"
    if query.qtype not in STORED_TYPES:
        return f"not stored: replies for {type_to_text(query.qtype)} are not"
    if not dependencies.is_cacheable:
        return "not stored: it also depends on what tells no changes"
    return "not stored: it is not made of the cluster's state alone"
