"""The cluster of tests, SERVICES with ENDPOINTS each, and a plan of pods: two namespaces with a Service each, and a name outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from hsdns.cli.offline import configure, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.cluster.objects import Deleted, EndpointSlice, Object, Service, Upserted
from hsdns.corefile.tree import Position, Token
from hsdns.load.pods import PodPlan, Target, resolv_confs
from hsdns.plugins.kubernetes import Kubernetes

SERVICES, ENDPOINTS = 4, 2  # half of the Services are headless
SYNTHETIC = ("synthetic", f"services={SERVICES}", f"endpoints={ENDPOINTS}", "seed=1")


def with_block(test: Callable[[Kubernetes], Awaitable[Any]], *words: str) -> Any:
    """Run a test with the kubernetes block of the built-in Corefile over a source."""

    async def run() -> Any:
        tokens = tuple(Token(word, Position("--source", 0, 0)) for word in words or SYNTHETIC)
        configuration, _ = configure(None, tokens)
        (block,) = kubernetes_blocks(configuration)
        runtime = make_runtime(configuration)
        await block.start(runtime)
        try:
            await wait_for_clusters(runtime, [block])
            return await test(block)
        finally:
            await block.stop()
            await runtime.tasks.cancel()

    return asyncio.run(run())


def put(block: Kubernetes, *objects: Object) -> None:
    """Add or replace objects, as an event of the source would."""
    block.watch.deliver([Upserted(each) for each in objects])


def remove(block: Kubernetes, *objects: Service | EndpointSlice) -> None:
    """Delete objects, as an event of the source would."""
    block.watch.deliver([Deleted(each) for each in objects])


# --- a plan of pods ---

DOMAIN = "cluster.local"
NAMESPACES = ["shop", "bank"]
WEB = Target("web", "shop", "service")
VAULT = Target("v-0.vault", "bank", "endpoint")
OUTSIDE = Target("www.example.com", "", "external")


def plan(**changes: Any) -> PodPlan:
    """Five pods in turn in `shop` and `bank`, all with glibc, that look up `web` by its short name."""
    found = PodPlan(
        5,
        NAMESPACES,
        resolv_confs(NAMESPACES, "192.0.2.53", DOMAIN, ["node.test"], {}),
        DOMAIN,
        {"glibc": 1},
        {"name": 1},
        [WEB],
        [1.0],
        7,
    )
    return replace(found, **changes)
