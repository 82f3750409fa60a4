"""The Extended DNS Errors of replies about the cluster, with `explain` (RFC 8914).

Path: the kubernetes plugin, after each answer -> here -> Reply.extended_errors.
Rule 1: they are computed right after the answer, from state that the counters of the reply cover.
Rule 2: a reply from an outdated state of the cluster says so, after its own reason if it has one.
"""

from __future__ import annotations

from datetime import UTC, datetime

from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.earlier import ClusterView
from hsdns.cluster.lookup import NoSuchName
from hsdns.wire.iana import Rcode
from hsdns.wire.message import InfoCode, Query, Reply, to_option
from hsdns.wire.name import Name


def errors_of_absence(store: ClusterView, absent: NoSuchName) -> bytes:
    """The errors of a reply to a name that does not exist."""
    if not store.serves:
        return _not_ready(store)
    return to_option(InfoCode.OTHER, absent.reason) + _stale(store, InfoCode.STALE_NXDOMAIN)


def errors_of_reply(answers: ClusterAnswers, query: Query, zone: Name, reply: Reply) -> bytes:
    """The errors of any other reply."""
    store = answers.lookup.store
    if reply.rcode == Rcode.REFUSED:
        return to_option(InfoCode.NOT_SUPPORTED, "a zone transfer needs the plugin transfer")
    if not store.serves:
        return b"" if reply.answer else _not_ready(store)
    stale = _stale(store, InfoCode.STALE_ANSWER)
    if reply.answer:
        return stale
    text = answers.nodata_reason(query.qname, query.qtype, zone)
    return to_option(InfoCode.OTHER, text) + stale


def _not_ready(store: ClusterView) -> bytes:
    since = f"; the API server cannot be watched since {store.lost}" if store.lost else ""
    return to_option(InfoCode.NOT_READY, f"the cluster has not been read yet{since}")


def _stale(store: ClusterView, code: int) -> bytes:
    restored, lost = store.restored, store.lost
    if restored is not None:
        date = datetime.fromtimestamp(restored, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return to_option(code, f"as of {date}, from a snapshot: the cluster has not been read yet")
    if lost:
        return to_option(code, f"as of {lost}, since when the API server cannot be watched")
    return b""
