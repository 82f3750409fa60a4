"""`hsdns resolve NAME`: a complete lookup as done by a program's resolver, query by query.

Path: argv -> here -> resolver/, with answers of query.py or ask/lookup.py -> standard output.
Rule 1: exit status 0: it resolves; 1: it does not, in at least one of the resolvers shown; 2: unknown.
Rule 2: with a Corefile the waits are on a virtual clock; with a server they are real.

Answers from a Corefile: the chain of a server, without a socket.
Rule 1: it opens no port; a `forward` of the Corefile queries its upstreams, and `kubernetes` its API server.
Rule 2: queries go to the first listen address of the Corefile, over UDP and TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from hsdns.ask.names import DOMAIN
from hsdns.cli import source
from hsdns.cli.command import ANY, FORMATS, FlagError, flag, say, say_text
from hsdns.errors import OperatorError
from hsdns.explanation.cli import RESOLV_CONF, AskerCommand, explain_running, say_meant
from hsdns.resolver import MODELS
from hsdns.resolver.model import UNSEEN, Packet, look_up, wire_of
from hsdns.resolver.report import LookupReport, as_list, as_table, report_of
from hsdns.wire.iana import Rcode, type_to_text

if TYPE_CHECKING:
    from hsdns.ask.cli import Asked
    from hsdns.assemble import Configuration
    from hsdns.chain import Endpoint, Next, Request
    from hsdns.corefile.tree import Token
    from hsdns.explanation.client import Client, Response, Tried
    from hsdns.explanation.question import LookupQuestion
    from hsdns.plugins.forward import Forward
    from hsdns.query import QueryProcessor
    from hsdns.server.runtime import ServerRuntime
    from hsdns.wire.message import Reply


BESIDE_NO_SERVER: Final = (
    "source", "conf", "context", "kubeconfig", "control", "forward", "from", "cluster-dns",
)  # fmt: skip


class Resolve(AskerCommand):
    """Shows the lookup in each resolver."""

    name = "resolve"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY

    server: Annotated[
        str, flag("server to ask, with real waits, in place of a Corefile", "ADDRESS")
    ] = ""
    port: Annotated[int, flag("port of -server (default 53)", "PORT", name="p", low=1)] = 53
    forward: Annotated[
        list[str],
        flag(
            "servers for names outside the cluster, without -conf (default: not known)",
            "ADDRESS...",
        ),
    ] = []
    o: Annotated[str, flag("format: text (default) or json", "FORMAT", choices=FORMATS)] = "text"

    def run(self) -> int:
        """Look the name up, and show each query."""
        from hsdns.ask.cli import Asked, domain_of, of_resolv_conf, read_servers
        from hsdns.cli.running_server import NotRunning, RunningServer
        from hsdns.explanation.question import TYPES

        self.exclusive("server", *BESIDE_NO_SERVER)
        if self.forward and self.conf is not None:
            raise FlagError("-forward has no effect with -conf; write forward in the Corefile")
        if "p" in self.given and not self.server:
            raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
        source.check_upstreams(self.forward)
        asking = self.asking()
        if not {*asking.types} <= {*TYPES}:
            word = type_to_text(asking.types[0])
            raise FlagError(
                f"programs look up A and AAAA records by getaddrinfo, not {word}; hsdns explain {self.words[0]} {word} "
                "-from NS/POD walks the search list for it"
            )
        path = self.resolv_conf or RESOLV_CONF
        domain = domain_of(path)
        place: Asked | tuple[Token, ...] | None
        if self.server:
            place = Asked(read_servers([self.server], self.port), domain or DOMAIN)
        else:
            try:
                found = self.found()
                if isinstance(found, RunningServer):
                    place = Asked([found.dns_address()], "", found)
                else:
                    place = found
            except NotRunning:
                if "from" in self.given or self.forward:
                    raise
                place = of_resolv_conf(path)
        if self.forward and (isinstance(place, Asked) or source.is_cluster(place)):
            raise FlagError(
                "-forward has no effect, as a server forwards as its Corefile says; leave it out, "
                "or write a Corefile with forward, and name it with -conf"
            )
        if not isinstance(place, Asked):
            name, text, lookups = self._ask_chain(asking, place)
        else:
            name, text, lookups = self._ask_server(asking, place)
        types = asking.types
        if self.o == "json":
            content = {
                "name": name,
                "types": [type_to_text(each) for each in types],
                "resolv_conf": text,
                "resolvers": msgspec.to_builtins(lookups),
            }
            say_text(json.dumps(content, indent=2))
        else:
            width = get_terminal_size((0, 0)).columns  # 0 in a pipe
            one = as_list(name, lookups[0], width)
            say(*(one if len(lookups) == 1 else as_table(name, lookups, width)))
        errors = {each.error for each in lookups if each.error}
        return 0 if not errors else 2 if errors == {UNSEEN} else 1

    def _ask_chain(
        self, asked: LookupQuestion, objects: tuple[Token, ...] | None
    ) -> tuple[str, str, list[LookupReport]]:
        from hsdns.cli.offline import configure
        from hsdns.server.explaining import name_of

        configuration, problems = configure(
            self.conf, objects, self.forward, runs_code=self.runs_code
        )

        word = self.word._replace(default=source.default_namespace(objects))

        async def ask() -> tuple[str, str, list[LookupReport]]:
            from hsdns.explanation.client import Lookups

            is_elsewhere = source.is_cluster(objects) and self.conf is None
            async with chain_of(
                configuration, is_denied=lambda: problems.is_denied, is_elsewhere=is_elsewhere
            ) as chain:
                name = await name_of(configuration, chain.runtime, word, as_typed=self.is_typed)
                say_meant(self.words[0], name)
                client = await chain.client_of(asked)
                lookups = Lookups(chain.respond, name, asked.types)
                try:
                    found = [await lookups.look_up(each) for each in client.settings]
                except ValueError as error:
                    raise FlagError(BAD_SEARCH.format(error)) from None
                return name, client.text, found

        return asyncio.run(ask())

    def _overridden(self, text: str) -> str:
        from hsdns.explanation.question import overridden

        return overridden(text, self.search, self.ndots_text)

    def _ask_server(
        self, asked: LookupQuestion, place: Asked
    ) -> tuple[str, str, list[LookupReport]]:
        from hsdns.ask.lookup import Sockets
        from hsdns.ask.question import NoReply

        (address, port), *_ = place.servers
        text = asked.resolv_conf
        if asked.pod and place.running is not None:
            word, given = self.words[0], self.word.namespace
            explained = explain_running(place.running, word, asked.types[0], given, asked)
            client = explained.asker
            assert client is not None, "it is about the lookup of a program"
            text = client.resolv_conf
            if client.reached == []:  # the Pod does not ask that server, or cannot
                return explained.name, text, client.lookups
        text = self._overridden(text)
        lines = [line for line in text.splitlines() if line.split()[:1] != ["nameserver"]]
        used = "\n".join([*lines, f"nameserver {address}"])
        silent = OperatorError(f"no reply from {address}, so its answers are not known")
        try:
            name = self.word.name
            if self.is_typed:
                say_meant(self.words[0], name)
            else:
                name = place.name_meant(self.words[0], self.word.namespace)
        except NoReply:
            raise silent from None

        async def ask(resolver: str) -> LookupReport:
            model = MODELS[resolver](used, Random(0))
            transport = Sockets(model, (address, port), Random())
            return report_of(model, await look_up(model, name, asked.types, transport))

        lookups: list[LookupReport] = []
        try:
            for each in asked.resolvers:
                lookups.append(asyncio.run(ask(each)))
                if not lookups[0].has_reply:
                    raise silent
        except ValueError as error:
            raise FlagError(BAD_SEARCH.format(error)) from None
        return name, text, lookups


BAD_SEARCH: Final = "a name of the search list cannot be looked up: {}"
LONGEST: Final = 30.0  # seconds for an answer, as from a server that hangs
OF_FILES: Final = "the nameservers in {} of its machine would answer for {{}}"
LEFT_OUT: Final = ("loop", "reload", "health", "ready", "pprof")  # they answer no query of a client


@contextlib.asynccontextmanager
async def chain_of(
    configuration: Configuration,
    *,
    is_denied: Callable[[], bool] = lambda: False,
    is_elsewhere: bool = False,
) -> AsyncIterator[Chain]:
    """The chain of a server with this configuration, whose plugins run; raise CannotTell.

    `is_denied`: whether the API server denies access, which waiting does not
    change.  `is_elsewhere`: the server runs on another machine, which has other files with nameservers.
    """
    from hsdns.chain import Endpoint
    from hsdns.cli.offline import CannotTell, kubernetes_blocks, started, wait_for_clusters
    from hsdns.explanation.observed import NO_FORWARD
    from hsdns.plugins.forward import Forward
    from hsdns.query import QueryProcessor

    listeners = [each for each in configuration.listeners if each.listen.scheme == "dns"]
    if not listeners:
        raise CannotTell(
            f"{configuration.corefile.path}: no server block answers plain DNS, so no resolver can ask it"
        )
    blocks = kubernetes_blocks(configuration)
    plugins = [each for each in configuration.plugins if each.name not in LEFT_OUT]
    async with started(configuration, plugins) as runtime:
        is_builtin = configuration.corefile.path == source.NAME
        unknown: list[tuple[Request, str]] = []

        def on_refused(request: Request, reply: Reply) -> None:
            if is_builtin:
                unknown.append((request, NO_FORWARD))

        if is_elsewhere:
            for block in configuration.blocks:
                block.handlers = [
                    ForwardElsewhere(each, unknown) if isinstance(each, Forward) else each
                    for each in block.handlers
                ]
        chains = {id(block): runtime.chain_of(block) for block in configuration.blocks}
        name = listeners[0].listen.server
        processor = QueryProcessor(
            name,
            listeners[0].block_choice(chains),
            any_class=listeners[0].any_class,
            on_refused=on_refused,
        )
        runtime.processors = {name: processor}
        await wait_for_clusters(runtime, blocks, is_denied)
        listen = listeners[0].listen
        yield Chain(
            runtime,
            processor,
            Endpoint("127.0.0.1", 40000),
            Endpoint(listen.host or "127.0.0.1", listen.port),
            unknown,
        )


class ForwardElsewhere:
    """`forward` of a server on another machine: what the nameservers in a file of that machine answer is not known."""

    name = "forward"
    waits = True

    def __init__(self, forward: Forward, unknown: list[tuple[Request, str]]) -> None:
        self._forward, self._unknown = forward, unknown

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Note what is not known, or ask."""
        from hsdns.wire.message import unwritten

        qname = request.query.qname
        for route in self._forward.routes:
            if route.matches(qname):
                if not route.files:
                    break
                files = " and ".join(route.files)
                self._unknown.append((request, OF_FILES.format(files)))
                return unwritten(Rcode.REFUSED)
        return await self._forward.handle(request, next)


class Chain:
    """Answers packets like a server; `unknown` has what another server would answer, each with a sentence for it."""

    def __init__(
        self,
        runtime: ServerRuntime,
        processor: QueryProcessor,
        client: Endpoint,
        local: Endpoint,
        unknown: list[tuple[Request, str]],
    ) -> None:
        self._unknown = unknown
        self.runtime = runtime
        self._processor = processor
        self._client, self._local = client, local
        self._began = time.monotonic()

    async def client_of(self, asked: LookupQuestion) -> Client:
        """The client of a lookup, which sends the queries from now on; raise QuestionError."""
        from hsdns.explanation.client import client_of

        runtime = self.runtime

        async def in_watch(reading: Coroutine[Any, Any, Tried]) -> Tried:
            return await runtime.in_watch(reading, LONGEST)

        found = await client_of(runtime.configuration, asked, in_watch)
        if found.pod is not None and found.pod.address:
            self._client = self._client._replace(address=found.pod.address)
        return found

    async def respond(self, packet: Packet) -> Response:
        """The seconds until the answer, and the answer, if there is one."""
        from hsdns.explanation.client import Response, response_to
        from hsdns.server.runtime import begin

        loop = asyncio.get_running_loop()
        wire = wire_of(packet, packet.qid)
        answering = self._processor.answer(
            wire, self._client, self._local, packet.transport, self._began + packet.at
        )
        began = loop.time()
        done = begin(answering, self.runtime.queries.spawn)
        waited = not done.done()
        try:
            reply = await asyncio.wait_for(done, LONGEST)
        except TimeoutError:
            return Response(None)
        why = ""
        if self._unknown:
            first, sentence = self._unknown[0]
            why = sentence.format(first.query.qname.to_text().removesuffix("."))
            reply = None if first.depth else reply
            self._unknown.clear()
        return response_to(packet, reply, why, loop.time() - began if waited else 0.0)
