"""`hsdns resolve NAME`: a complete lookup as done by a program's resolver, query by query.

Path: argv -> here -> resolver/, with answers of cli/resolve_chain.py or ask/lookup.py -> standard output.
Rule 1: exit status 0: it resolves; 1: it does not, in at least one of the resolvers shown; 2: unknown.
Rule 2: with a Corefile the waits are on a virtual clock; with a server they are real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING, Annotated

import msgspec

from hsdns.cli import source
from hsdns.cli.asker_flags import AskerCommand
from hsdns.cli.command import ANY, FORMATS, FlagError, flag, say, say_text
from hsdns.errors import OperatorError
from hsdns.resolver import MODELS
from hsdns.resolver.model import Model, Transport, VirtualTransport, look_up
from hsdns.resolver.report import LookupReport, as_list, as_table, report_of
from hsdns.resolver.resolv_conf import pod_resolv_conf
from hsdns.wire.iana import type_to_text

if TYPE_CHECKING:
    from hsdns.cli.running_server import RunningServer
    from hsdns.corefile.tree import Token
    from hsdns.explanation.question import LookupQuestion


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
            "servers for names outside the cluster, without -conf (default: REFUSED)", "ADDRESS..."
        ),
    ] = []
    o: Annotated[str, flag("format: text (default) or json", "FORMAT", choices=FORMATS)] = "text"

    def run(self) -> int:
        """Look the name up, and show each query."""
        from hsdns.cli.running_server import RunningServer

        name, types = self.name_and_types()
        resolvers = self.resolvers()
        if self.server:
            for each in (
                "source",
                "conf",
                "context",
                "kubeconfig",
                "control",
                "forward",
                "from",
                "cluster-dns",
            ):
                if each in self.given:
                    raise FlagError(
                        f"-server asks a running server, so -{each} has no effect; leave one of them out"
                    )
            place = self.server, self.port
            text, lookups = self._ask_server(resolvers, name, types, self.resolv_conf_text(), place)
        else:
            if "p" in self.given:
                raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
            if self.forward and self.conf is not None:
                raise FlagError("-forward has no effect with -conf; write forward in the Corefile")
            source.check_upstreams(self.forward)
            asked, looked_at = self.asking(), self.found()
            is_whole = isinstance(looked_at, RunningServer) or source.is_cluster(looked_at)
            if self.forward and is_whole:
                raise FlagError(
                    "-forward has no effect, as a server forwards as its Corefile says; leave it out, "
                    "or write a Corefile with forward, and name it with -conf"
                )
            if isinstance(looked_at, RunningServer):
                conf, place = self._conf_of(looked_at, asked), looked_at.dns_address()
                text, lookups = self._ask_server(resolvers, name, types, conf, place)
            else:
                text, lookups = self._ask_chain(asked, looked_at)
        if self.o == "json":
            found = {
                "name": name,
                "types": [type_to_text(each) for each in types],
                "resolv_conf": text,
                "resolvers": msgspec.to_builtins(lookups),
            }
            say_text(json.dumps(found, indent=2))
        else:
            say(*(as_list(name, lookups[0]) if len(lookups) == 1 else as_table(name, lookups)))
        return 0 if all(not each.error for each in lookups) else 1

    def _conf_of(self, server: RunningServer, asked: LookupQuestion) -> str:
        """The resolv.conf of the client of a lookup that a running server knows."""
        if not asked.pod:
            return asked.resolv_conf
        from hsdns.cli.explain import explain_running

        explained = explain_running(server, asked.parameters())
        assert explained.asker is not None, "it is about the lookup of a program"
        return explained.asker.resolv_conf

    def _ask_chain(
        self, asked: LookupQuestion, objects: tuple[Token, ...] | None
    ) -> tuple[str, list[LookupReport]]:
        from hsdns.cli.offline import configure
        from hsdns.cli.resolve_chain import chain_of

        configuration, _ = configure(self.conf, objects, self.forward, runs_code=self.runs_code)

        async def ask() -> tuple[str, list[LookupReport]]:
            async with chain_of(configuration) as chain:
                text = node = asked.resolv_conf
                if asked.pod:
                    pod = await chain.find_pod(asked.pod, asked.cluster_dns)
                    text = pod_resolv_conf(pod.dns, pod.server, pod.domain, node)
                text = self._overridden(text)
                return text, await _look_up(
                    asked.resolvers,
                    text,
                    asked.name,
                    asked.types,
                    lambda model: VirtualTransport(chain.fate),
                )

        return asyncio.run(ask())

    def _overridden(self, text: str) -> str:
        from hsdns.explanation.question import overridden

        return overridden(text, self.search, self.ndots_text)

    def _ask_server(
        self,
        resolvers: Sequence[str],
        name: str,
        types: tuple[int, ...],
        text: str,
        server: tuple[str, int],
    ) -> tuple[str, list[LookupReport]]:
        from hsdns.ask.lookup import Sockets

        address = server[0]
        try:
            ip_address(address)
        except ValueError:
            raise FlagError(f'-server needs an IP address, found "{address}"') from None
        text = self._overridden(text)
        lines = [line for line in text.splitlines() if line.split()[:1] != ["nameserver"]]
        used = "\n".join([*lines, f"nameserver {address}"])

        sockets = partial(Sockets, server=server, random=Random())
        lookups = asyncio.run(_look_up(resolvers, used, name, types, sockets))
        if not any(each.has_reply for each in lookups):
            raise OperatorError(f"no reply from {address}, so its answers are not known")
        return text, lookups


async def _look_up(
    names: Sequence[str],
    text: str,
    name: str,
    types: Sequence[int],
    transport: Callable[[Model], Transport],
) -> list[LookupReport]:
    found = []
    for each in names:
        model = MODELS[each](text, Random(0))
        try:
            found.append(report_of(model, await look_up(model, name, types, transport(model))))
        except ValueError as error:
            raise FlagError(f"a name of the search list cannot be looked up: {error}") from None
    return found
