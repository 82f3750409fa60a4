"""Answers for `hsdns resolve` from a Corefile: the chain of a server, without a socket.

Path: cli/resolve.py -> here -> query.py.
Rule 1: it opens no port; a `forward` of the Corefile queries its upstreams, and `kubernetes` its API server.
Rule 2: queries go to the first listen address of the Corefile, over UDP and TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

from hsdns.assemble import Configuration
from hsdns.chain import Endpoint
from hsdns.cli.offline import CannotTell, kubernetes_blocks, started, wait_for_clusters
from hsdns.explanation.client import ClientPod, Tried, find_pod
from hsdns.query import QueryProcessor
from hsdns.resolver.model import Fate, Packet, answer_of, wire_of
from hsdns.server.runtime import ServerRuntime, begin

LONGEST: Final = 30.0  # seconds for an answer, as from a server that hangs
LEFT_OUT: Final = ("loop", "reload", "health", "ready", "pprof")  # they answer no query of a client


@contextlib.asynccontextmanager
async def chain_of(configuration: Configuration, client: str = "127.0.0.1") -> AsyncIterator[Chain]:
    """The chain of a server with this configuration, whose plugins run; raise CannotTell.

    `client` is the address of the client.
    """
    listeners = [each for each in configuration.listeners if each.listen.scheme == "dns"]
    if not listeners:
        raise CannotTell(
            f"{configuration.corefile.path}: no server block answers plain DNS, so no resolver can ask it"
        )
    blocks = kubernetes_blocks(configuration)
    plugins = [each for each in configuration.plugins if each.name not in LEFT_OUT]
    async with started(configuration, plugins) as runtime:
        chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}
        name = listeners[0].listen.server
        processor = QueryProcessor(
            name, listeners[0].block_choice(chains), any_class=listeners[0].any_class
        )
        runtime.processors = {name: processor}
        await wait_for_clusters(runtime, blocks)
        listen = listeners[0].listen
        yield Chain(
            runtime,
            processor,
            Endpoint(client, 40000),
            Endpoint(listen.host or "127.0.0.1", listen.port),
        )


class Chain:
    """Answers packets like a server."""

    def __init__(
        self, runtime: ServerRuntime, processor: QueryProcessor, client: Endpoint, local: Endpoint
    ) -> None:
        self._runtime, self._processor = runtime, processor
        self._client, self._local = client, local
        self._began = time.monotonic()

    async def find_pod(self, path: str, cluster_dns: str) -> ClientPod:
        """Read a pod, which is the client from now on; raise QuestionError."""
        runtime = self._runtime
        assert runtime.configuration is not None, "of started()"

        async def in_watch(reading: Coroutine[Any, Any, Tried]) -> Tried:
            return await runtime.in_watch(reading, LONGEST)

        found = await find_pod(runtime.configuration, path, cluster_dns, in_watch)
        if found.address:
            self._client = self._client._replace(address=found.address)
        return found

    async def fate(self, packet: Packet) -> Fate:
        """The seconds until the answer, and the answer; None if there is none."""
        loop = asyncio.get_running_loop()
        wire = wire_of(packet, packet.qid)
        answering = self._processor.answer(
            wire, self._client, self._local, packet.transport, self._began + packet.at
        )
        began = loop.time()
        done = begin(answering, self._runtime.queries.spawn)
        waited = not done.done()
        try:
            reply = await asyncio.wait_for(done, LONGEST)
        except TimeoutError:
            return None
        if reply is None:
            return None
        return (loop.time() - began if waited else 0.0), answer_of(reply, packet)
