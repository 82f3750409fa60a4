"""Answers from an earlier state of the cluster, for requests that match rules of `fault`.

Path: the kubernetes plugin, or k8s_external, for a request with `earlier` -> here -> cluster/earlier.py.
Rule 1: a request is compared with the newest state only if something has changed since the earlier one.
Rule 2: each name outside the zone is looked up only once for both answers.
"""

from __future__ import annotations

from hsdns.chain import Earlier
from hsdns.cluster.answer import ClusterAnswers, ResolveOutside
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.store import Store
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name


def is_other(store: Store, earlier: Earlier | None) -> bool:
    """Whether a store has changed since an earlier state."""
    return earlier is not None and store.replaced.latest > earlier.time


def each_once(resolve: ResolveOutside) -> ResolveOutside:
    """A resolver that looks up each name once."""
    known: dict[tuple[Name, int], Reply] = {}

    async def found(qname: Name, qtype: int) -> Reply:
        if (qname, qtype) not in known:
            known[qname, qtype] = await resolve(qname, qtype)
        return known[qname, qtype]

    return found


async def compare(
    earlier: Earlier,
    newest: ClusterAnswers,
    query: Query,
    zone: Name,
    resolve: ResolveOutside,
    reply: Reply | None,
) -> None:
    """Compare a reply, None for a nonexistent name, with the reply of the current state."""
    try:
        other = await newest.answer(query.qname, query.qtype, zone, resolve)
    except NoSuchName:
        other = None
    earlier.compare(reply, other)
