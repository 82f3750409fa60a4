"""Answers from an earlier state of the cluster, for requests that rules of `fault` hold back from the newest one.

Path: the kubernetes plugin, or k8s_external, for a request with `earlier` -> here -> cluster/earlier.py.
Rule 1: a request is compared with the newest state only if something has changed since the earlier one.
Rule 2: for both answers together, each name outside of the zone is looked up once.
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
    """Look up each name once."""
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
    """Compare a reply, None for a name that does not exist, with that of the newest state."""
    try:
        other = await newest.answer(query.qname, query.qtype, zone, resolve)
    except NoSuchName:
        other = None
    earlier.compare(reply, other)
