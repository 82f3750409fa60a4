"""Whether the answer table of a server stores a reply, and whether it has it now.

Path: explain.py -> here -> the policy that also decides for queries, and the table, which is not changed.
Rule: entries differ by whether a query has EDNS and DO, so all these forms of the question are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hsdns.answer_table.policy import STORED_TYPES, BlockPolicy
from hsdns.assemble import ServedAddress
from hsdns.cluster.freshness import Dependencies
from hsdns.explanation.edges import Peek
from hsdns.explanation.observed import Visit
from hsdns.explanation.report import TableState
from hsdns.fastpath import Peeked
from hsdns.plugins.cache import Cache
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import Query, Reply

_PAYLOAD: Final = 1232  # no other forms have entries
FORMS: Final = {
    "without EDNS": None,
    "with EDNS": Edns(_PAYLOAD),
    "with EDNS and DO": Edns(_PAYLOAD, do=True),
}


def table_use(
    listener: ServedAddress,
    visits: Sequence[Visit],
    query: Query,
    reply: Reply,
    dependencies: Dependencies,
) -> str:
    """Whether a reply is stored, as a phrase."""
    first = visits[0]
    (block, *_) = [
        each for each in listener.served[first.request.zone] if first.handler in each.handlers
    ]
    is_cached = any(each.told and isinstance(each.handler, Cache) for each in visits)
    return _use(block.policy, query, reply, dependencies, is_cached=is_cached)


def _use(
    policy: BlockPolicy, query: Query, reply: Reply, dependencies: Dependencies, *, is_cached: bool
) -> str:
    if is_cached and policy.stores_cached:
        return "stored while `cache` has its entry"
    if policy.reason:
        return f"not stored: {policy.reason}"
    if dependencies.is_numerous and policy.may_store(query, reply, dependencies):
        return "stored if it is asked for again, or made like those of all addresses"
    if policy.may_store(query, reply, dependencies):
        return "stored once it was asked for, until an object that it depends on changes"
    if query.qtype not in STORED_TYPES:
        return f"not stored: replies for {type_to_text(query.qtype)} are not"
    if not dependencies.is_cacheable:
        return "not stored: it also depends on what tells no changes"
    return "not stored: it is not made of the cluster's state alone"


def table_state(peek: Peek, servers: Iterable[str], query: Query, now: float) -> TableState:
    """The entries for a question in the tables of servers, as metrics name them; `now` in monotonic seconds."""
    found: dict[str, Peeked] = {}
    wires = {
        form: encode_query(Query.ask(query.qname, query.qtype, edns=edns), 0)
        for form, edns in FORMS.items()
    }
    for server in servers:
        for form, wire in wires.items():
            peeked = peek(server, wire, now)
            if peeked is not None:
                found.setdefault(form, peeked)
    hits = list(found.values())
    stored = [each.stored for each in hits if each.stored is not None]
    expires = [each.expires for each in hits if each.expires is not None]
    return TableState(
        [form for form in FORMS if form in found],
        bool(hits) and all(each.is_denial for each in hits),
        round(now - min(stored), 1) if stored else None,
        round(max(expires) - now, 1) if expires else None,
    )


def table_text(use: str, state: TableState) -> str:
    """Whether a reply is stored, and the table's entry, as text."""
    if not state.forms:
        return use if use.startswith("not ") else f"{use}; it does not have it now"
    if state.is_denial:
        return f"{use}; it denies the name now, as all that do not exist in the zone"
    time = "" if state.age is None else f", since {state.age:.0f} s"
    if state.left is not None:
        time += f" and for {state.left:.0f} s more"
    return f"{use}; it has it now, for queries {', '.join(state.forms)}{time}"
