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
import json
import time
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from hsdns.ask.names import DOMAIN
from hsdns.cli import source
from hsdns.cli.command import ANY, OUTPUT, FlagError, columns, flag, say, say_text
from hsdns.colours import GREEN, RED
from hsdns.errors import OperatorError
from hsdns.explanation.cli import RESOLV_CONF, AskerCommand, explain_running, name_at, say_meant
from hsdns.resolver import model_of
from hsdns.resolver.forwarders.forwarder import Between
from hsdns.resolver.model import UNSEEN, Packet, look_up, wire_of
from hsdns.resolver.report import LookupReport, as_list, as_table, report_of
from hsdns.wire.iana import type_to_text

if TYPE_CHECKING:
    from hsdns.ask.cli import Asked
    from hsdns.assemble import Configuration
    from hsdns.corefile.tree import Token
    from hsdns.explanation.client import Client, Respond
    from hsdns.explanation.question import LookupQuestion
    from hsdns.server.runtime import ServerRuntime


BESIDE_NO_SERVER: Final = (
    "source", "conf", "context", "kubeconfig", "control", "forward", "from", "cluster-dns",
)  # fmt: skip


class Resolve(AskerCommand):
    """Shows the lookup of each program."""

    name = "resolve"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY

    server: str = flag("", "server to query in real time, instead of a Corefile", "ADDRESS")
    port: int = flag(53, "port of --server (default 53)", "PORT", name="p", low=1)
    forward: list[str] = flag(
        [],
        "servers for names outside the cluster, without --conf (default: not known)",
        "ADDRESS...",
    )
    o: str = flag("text", OUTPUT)

    def run(self) -> int:
        """Look the name up, and show each query."""
        from hsdns.ask.cli import Asked, domain_of, of_resolv_conf, read_servers
        from hsdns.cli.running_server import NotRunning, RunningServer

        self.exclusive("server", *BESIDE_NO_SERVER)
        if self.forward and self.conf is not None:
            raise FlagError("--forward has no effect with --conf; write forward in the Corefile")
        if "p" in self.given and not self.server:
            raise FlagError("-p is the port of --server; add --server ADDRESS, or remove -p")
        source.check_upstreams(self.forward)
        asking = self.asking()
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
                "--forward has no effect with a running server; remove it, "
                "or add a Corefile with forward, with --conf"
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
            one = as_list(name, lookups[0], columns())
            shown = one if len(lookups) == 1 else as_table(name, lookups, columns())
            words = {"resolves with all": GREEN, "resolves with none": RED, "error": RED}
            say(*shown, words=words, fits=True)
        errors = {each.error for each in lookups if each.error}
        return 0 if not errors else 2 if errors == {UNSEEN} else 1

    def _ask_chain(
        self, asked: LookupQuestion, objects: tuple[Token, ...] | None
    ) -> tuple[str, str, list[LookupReport]]:
        from hsdns.cli.offline import check_read, configure, reading
        from hsdns.explanation.client import Lookups, client_of
        from hsdns.server.explaining import name_of

        configuration, _ = configure(self.conf, objects, self.forward, runs_code=self.runs_code)
        is_elsewhere = source.is_cluster(objects) and self.conf is None
        word = self.word._replace(default=source.default_namespace(objects))

        async def ask() -> tuple[str, str, list[LookupReport]]:
            async with reading(configuration, word.namespaces, LEFT_OUT) as (runtime, blocks):
                check_read(blocks)
                name = await name_of(runtime, word, as_typed=self.is_typed)
                say_meant(self.words[0], name)
                client = await client_of(
                    configuration, asked, partial(runtime.in_watch, seconds=LONGEST)
                )
                respond = _chain(configuration, runtime, client, is_elsewhere=is_elsewhere)
                lookups = Lookups(respond, name, asked.types)
                try:
                    found = [await lookups.look_up(each) for each in client.settings]
                except ValueError as error:
                    raise FlagError(BAD_SEARCH.format(error)) from None
                return name, client.text, found

        return asyncio.run(ask())

    def _ask_server(
        self, asked: LookupQuestion, place: Asked
    ) -> tuple[str, str, list[LookupReport]]:
        from hsdns.ask.lookup import Sockets
        from hsdns.ask.question import NoReply
        from hsdns.explanation.question import overridden

        (address, port), *_ = place.servers
        text = asked.resolv_conf
        running = place.running
        if asked.pod and running is not None:
            word, given = self.words[0], self.word.namespace
            if not self.is_typed:
                word = name_at(running, word, self.word)
                place = place._replace(name=word)
            explained = explain_running(running, word, asked.types[0], given, asked)
            client = explained.asker
            assert client is not None, "it is about the lookup of a program"
            text = client.resolv_conf
            if client.reached == []:  # the Pod does not ask that server, or cannot
                say_meant(self.words[0], word)
                return explained.name, text, client.lookups
        text = overridden(text, self.search, self.ndots_text)
        lines = [line for line in text.splitlines() if line.split()[:1] != ["nameserver"]]
        used = "\n".join([*lines, f"nameserver {address}"])
        silent = OperatorError(f"no reply from {address}; check --server and -p")
        try:
            name = self.word.name
            if self.is_typed:
                say_meant(self.words[0], name)
            else:
                name = place.name_meant(self.words[0], self.word.namespace)
        except NoReply as error:
            raise OperatorError(f"{error}; check --server and -p") from None

        async def ask(resolver: str) -> LookupReport:
            model = model_of(resolver, used, Random(0), Between(asked.through))
            transport = Sockets(model, (address, port), Random(), needs_server=True)
            return report_of(model, await look_up(model, name, asked.types, transport))

        lookups: list[LookupReport] = []
        try:
            for each in asked.resolvers:
                lookups.append(asyncio.run(ask(each)))
                if not lookups[0].has_reply:
                    raise silent
        except NoReply as error:
            raise OperatorError(f"{error}; check --server and -p") from None
        except ValueError as error:
            raise FlagError(BAD_SEARCH.format(error)) from None
        return name, text, lookups


BAD_SEARCH: Final = "a name of the search list cannot be looked up: {}"
LONGEST: Final = 30.0  # seconds for an answer, as from a server that hangs
LEFT_OUT: Final = ("loop", "reload", "health", "ready", "pprof")  # they answer no query of a client


def _chain(
    configuration: Configuration, runtime: ServerRuntime, client: Client, *, is_elsewhere: bool
) -> Respond:
    """The answers of a server with this configuration, whose plugins run, to a client.

    `is_elsewhere`: the server runs on another machine, which has other files with nameservers.
    """
    from hsdns.chain import Endpoint
    from hsdns.explanation.client import Response, response_to
    from hsdns.server.explaining import make_explainer
    from hsdns.server.runtime import begin

    explainer = make_explainer(
        runtime,
        asks=True,
        is_builtin=configuration.corefile.path == source.NAME,
        is_elsewhere=is_elsewhere,
        acts=True,
    )
    address = client.pod.address if client.pod is not None else ""
    own, first = Endpoint(address or "127.0.0.1", 40000), time.monotonic()

    async def respond(packet: Packet, server: str) -> Response:
        loop = asyncio.get_running_loop()
        began = loop.time()
        wire = wire_of(packet, packet.qid)
        done = begin(
            explainer.ask(wire, own, packet.transport, first + packet.at, server),
            runtime.queries.spawn,
        )
        waited = not done.done()
        try:
            answered: tuple[bytes | None, str] | None = await asyncio.wait_for(done, LONGEST)
        except TimeoutError:
            return Response(None)
        reply, why = answered or (None, "")
        return response_to(packet, reply, why, loop.time() - began if waited else 0.0)

    return respond
