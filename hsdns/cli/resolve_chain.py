"""Answers for `hsdns resolve` from a Corefile: the chain of a server, without a socket.

Path: cli/resolve.py -> here -> query.py.
Rule 1: it opens no port; a `forward` of the Corefile queries its upstreams, and `kubernetes` its API server.
Rule 2: queries go to the first listen address of the Corefile, over UDP and TCP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Self

from hsdns.assemble import Configuration
from hsdns.chain import Endpoint
from hsdns.cli.offline import CannotTell, kubernetes_blocks, make_runtime, wait_for_clusters
from hsdns.explanation.client import ClientPod, Tried, find_pod
from hsdns.plugin import Plugin
from hsdns.query import QueryProcessor
from hsdns.resolver.model import (
    Fate,
    Model,
    Packet,
    Step,
    VirtualTransport,
    answer_of,
    look_up,
    wire_of,
)
from hsdns.server.runtime import begin

LONGEST: Final = 30.0  # seconds for an answer, as from a server that hangs
LEFT_OUT: Final = ("loop", "reload", "health", "ready", "pprof")  # they answer no query of a client


class Chain:
    """Answers packets like a server with this configuration; a context manager.  `client` is the address of the client.

    Entering it raises CannotTell if the cluster cannot be read.
    """

    def __init__(self, configuration: Configuration, client: str = "127.0.0.1") -> None:
        self._configuration = configuration
        self._client = Endpoint(client, 40000)
        self._runner = asyncio.Runner()
        self._started: list[Plugin] = []
        self.blocks = kubernetes_blocks(configuration)

    def __enter__(self) -> Self:
        """Start the plugins, and read the cluster."""
        try:
            self._runner.run(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the plugins."""
        self._runner.run(self._stop())
        self._runner.close()

    def find_pod(self, path: str, cluster_dns: str) -> ClientPod:
        """Read a pod, which is the client from now on; raise QuestionError."""
        runtime = self._runtime

        async def in_watch(reading: Coroutine[Any, Any, Tried]) -> Tried:
            return await runtime.in_watch(reading, LONGEST)

        found = self._runner.run(find_pod(self._configuration, path, cluster_dns, in_watch))
        if found.address:
            self._client = self._client._replace(address=found.address)
        return found

    def look_up(self, model: Model, name: str, types: Sequence[int]) -> list[Step]:
        """Run a lookup of a resolver model; raise ValueError for a name that cannot be in a message."""
        return self._runner.run(look_up(model, name, types, VirtualTransport(self.fate)))

    async def _start(self) -> None:
        configuration = self._configuration
        self._runtime = runtime = make_runtime(configuration)
        listeners = [each for each in configuration.listeners if each.listen.scheme == "dns"]
        if not listeners:
            raise CannotTell(
                f"{configuration.corefile.path}: no server block answers plain DNS, so no resolver can ask it"
            )
        listener = listeners[0]
        self._local = Endpoint(listener.listen.host or "127.0.0.1", listener.listen.port)
        for plugin in configuration.plugins:
            if plugin.name in LEFT_OUT:
                continue
            self._started.append(plugin)
            await plugin.start(runtime)
        chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}
        name = listener.listen.server
        self._processor = QueryProcessor(
            name, listener.block_choice(chains), any_class=listener.any_class
        )
        runtime.processors = {name: self._processor}
        await wait_for_clusters(runtime, self.blocks)
        self._began = time.monotonic()

    async def _stop(self) -> None:
        for plugin in self._started:
            await plugin.stop()
        await self._runtime.tasks.cancel()
        await self._runtime.queries.cancel()

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
