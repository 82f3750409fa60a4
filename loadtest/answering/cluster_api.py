"""The synthetic cluster behind an API server on loopback, for CoreDNS, which cannot generate it.

    python -m loadtest.answering.cluster_api PORT SERVICES ENDPOINTS CHANGES

Path: servers.py starts it -> SyntheticCluster -> loadtest/apiserver/fake_api.py.
Rule 1: objects and changes are those of hsdns's `source synthetic`: the same names, addresses and seed.
Rule 2: the CPU time for making a change is that of this process; CoreDNS only reads the watch, as in a real cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import msgspec
import uvloop

from hsdns.cluster.objects import Object
from hsdns.sources.synthetic import Pace, SyntheticCluster
from loadtest.answering.cluster import Cluster
from loadtest.apiserver.fake_api import FakeApi
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.watch_cache import KINDS

_VERSIONS = {kind.name: kind.api_version for kind in KINDS}


def manifest(each: Object) -> dict[str, object]:
    """Return an object in the form of the API."""
    kind = type(each).__name__
    fields: dict[str, object] = msgspec.to_builtins(each)
    return {"kind": kind, "apiVersion": _VERSIONS[kind], **fields}


async def serve(port: int, cluster: Cluster, changes: float) -> None:
    """Serve the cluster, and change it at a steady rate, until the process is terminated."""
    made = SyntheticCluster(cluster.shape())
    served = FakeCluster()
    for each in made.objects():
        served.apply(manifest(each))
    async with FakeApi(served, port=port):
        if not changes:
            await asyncio.Event().wait()
        clock = asyncio.get_running_loop().time
        pace = Pace(changes, clock())
        while True:
            await asyncio.sleep(pace.pause)
            for _ in range(pace.due(clock())):
                served.apply(manifest(made.change()))


def main(words: Sequence[str]) -> None:
    """Serve with the four command line arguments."""
    port, services, endpoints, changes = map(int, words)
    uvloop.run(serve(port, Cluster(services, endpoints), changes))


if __name__ == "__main__":
    main(sys.argv[1:])
