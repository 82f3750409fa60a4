"""`hsdns doctor -recording FILE`: the queries of a recording, as an object of the dump.

Path: cli/doctor.py -> here -> recording/reader.py, resolver/search_cost.py -> rules/checks/pods.py.
Rule: names without a failed query are omitted, so that the object is small: a recording may have millions of queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hsdns.cli.flags import FlagError
from hsdns.recording.entry import RecordedQuery
from hsdns.recording.reader import BadRecording, Recording
from hsdns.resolver.search_cost import ClientCost, SearchCosts
from hsdns.sources.cluster_dump import QUERIES_OF


def recorded_queries(path: str) -> dict[str, Any]:
    """The object; raise FlagError."""
    try:
        with Recording.open(path) as recording:
            costs = SearchCosts(recording.header.zones)
            for each in recording:
                if isinstance(each, RecordedQuery) and each.rcode is not None:
                    denied = each.rcode == "NXDOMAIN"
                    costs.add(each.at, each.client, each.name, each.type, is_denied=denied)
    except BadRecording as error:
        raise FlagError(f"-recording: {error}") from None
    except OSError as error:
        raise FlagError(
            f"-recording {path}: it cannot be read: {error.strerror or error}"
        ) from None
    if not costs.clients:
        raise FlagError(
            f"-recording {path}: it has no queries; record without -queries=false while names are asked for"
        )
    return {
        "apiVersion": "hsdns.io/v1",
        "kind": QUERIES_OF,
        "metadata": {"name": path},
        "clients": [_client(address, cost) for address, cost in sorted(costs.clients.items())],
    }


def _client(address: str, cost: ClientCost) -> Mapping[str, Any]:
    most = sorted(cost.names.items(), key=lambda each: (-each[1].extra, each[0]))
    names = [
        {"name": name, "lookups": each.lookups, "extra": each.extra, "searched": each.searched}
        for name, each in most
    ]
    return {"address": address, "queries": cost.queries, "names": names}
