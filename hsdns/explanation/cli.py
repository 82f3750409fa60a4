"""`hsdns explain NAME [TYPE]`: why a name has its answer, or none.

Path: argv -> here -> /v1/explain of a running server, or with --source or --conf the plugins of the Corefile, started
without ports -> standard output.
Rule 1: a running server explains what it answers; a source, a Corefile or a cluster is read here.
Rule 2: the exit status is 0 for a name that resolves, 1 for one that does not or that leads nowhere, 2 if that is
        unknown.
Rule 3: standard output has only the explanation; errors of a source go to standard error.

Explains a question from a source and a Corefile, without a server:
Rule 1: it opens no port, queries no other server and writes no file; a snapshot is read, but not saved.
Rule 2: of a cluster, its own DNS servers are asked, too, for the decisive query.  A server counts once one has given an
        address that only this cluster has, because something between may answer.

Lets the running server explain a question:
Rule: a server without the page, or with other explanations, is reported with a sentence.

Queries a DNS server, to compare its answer with an explanation:
Rule: it uses UDP, and TCP if the reply is truncated; a server without an answer is reported, and is not an error.

The flags of a command for the client of a lookup, of `hsdns resolve` too: a resolver, its resolv.conf, or a Pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec

from hsdns import colours
from hsdns.ask.names import KINDS, NAMESPACE, Word, read_word, taken_for
from hsdns.cli import source
from hsdns.cli.command import (
    ANY,
    IN_NAMESPACE,
    OUTPUT,
    FlagError,
    columns,
    complain,
    flag,
    say,
    say_json,
)
from hsdns.cli.source import ClusterCommand
from hsdns.resolver import USUAL
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.wire.iana import RRType, type_to_text

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.cli.offline import Problems
    from hsdns.cli.running_server import RunningServer
    from hsdns.corefile.tree import Token
    from hsdns.doctor.servers import DnsServer
    from hsdns.explanation.question import LookupQuestion
    from hsdns.explanation.report import Explanation, ServerAnswer, ServerReport
    from hsdns.plugins.kubernetes import Kubernetes
    from hsdns.server.runtime import ServerRuntime
    from hsdns.wire.name import Name

UNKNOWN: Final = 2  # the exit status if the answer is unknown, also for bad input
STATUSES: Final = {
    "resolves": 0,
    "leads nowhere": 1,
    "does not resolve": 1,
    "could not tell": UNKNOWN,
}
NO_HISTORY: Final = "--history needs a running server; leave out --source and --conf"


RESOLV_CONF: Final = "/etc/resolv.conf"
PODS: Final = {each for each, kind in KINDS.items() if kind == "pod"}
CLIENT: Final = frozenset(("from", "search", "ndots", "resolv-conf"))
FLAGS: Final = ("program", "through", "search", "ndots", "resolv-conf", "from", "cluster-dns")


class AskerCommand(ClusterCommand):
    """A command with flags for the client of a lookup."""

    namespace: str = flag("", IN_NAMESPACE)

    program_: str = flag(
        "",
        f"program to show the lookup of, such as node-resolve (default: {', '.join(USUAL)}, side by side)",
        "NAME",
    )
    through: str = flag(
        "", f"forwarder of its queries: {', '.join(FORWARDERS)} (default: none)", "NAME"
    )
    search: str = flag("", "search domains instead of those in resolv.conf", "DOMAIN,...")
    ndots: int | None = flag(None, "ndots instead of the value in resolv.conf", "N", high=15)
    resolv_conf: str = flag(
        "", "resolv.conf to use (default /etc/resolv.conf); with --from, the node's", "FILE"
    )
    from_: str = flag("", "pod whose resolv.conf to use, as the kubelet writes it", "NAMESPACE/POD")
    cluster_dns: str = flag(
        "", "with --from: nameserver of the pod (default: of Service kube-dns)", "ADDRESS"
    )

    def asking(self) -> LookupQuestion:
        """The lookup that the words and flags describe; raise FlagError."""
        from hsdns.explanation.question import LookupQuestion, read_name, read_through

        if "cluster-dns" in self.given and "from" not in self.given:
            raise FlagError("--cluster-dns is for a pod; add --from NAMESPACE/POD, or remove it")
        if "from" in self.given and not self.from_:
            raise FlagError("--from needs a namespace and a pod, as in shop/web-0")
        if self.word.kind == "address" and [each.upper() for each in self.words[1:]] == ["PTR"]:
            self.words = [read_name(*self.words)[0], "PTR"]
        name, types = self.name_and_types()
        return LookupQuestion(
            name,
            types,
            self.resolvers(types),
            self.pod,
            self.resolv_conf_text(),
            self.search,
            self.ndots_text,
            self.cluster_dns,
            read_through(self.through),
        )

    @property
    def ndots_text(self) -> str:
        """The word of -ndots, "" without it."""
        return "" if self.ndots is None else str(self.ndots)

    @property
    def pod(self) -> str:
        """NAMESPACE/POD of --from, "" without it."""
        kind, slash, name = self.from_.partition("/")
        if kind.lower() in PODS:
            return f"{self.namespace or NAMESPACE}/{name}"
        return f"{self.namespace}/{kind}" if kind and self.namespace and not slash else self.from_

    @property
    def is_typed(self) -> bool:
        """Whether a program looks the first word up as it is, not the name of the cluster that it means."""
        from hsdns.ask.cli import domain_of

        names_client = not CLIENT.isdisjoint(self.given)
        is_client = names_client or domain_of(self.resolv_conf or RESOLV_CONF)
        return self.word.kind == "host" and bool(is_client)

    @property
    def word(self) -> Word:
        """What the first word names; a Service and a Pod are by default in the namespace of --from.  Raise BadWord."""
        found = read_word(self.name_and_type()[0], self.namespace)
        return found._replace(namespace=found.namespace or self.pod.partition("/")[0])

    def resolvers(self, types: Sequence[int]) -> tuple[str, ...]:
        """The programs to show; raise QuestionError."""
        from hsdns.explanation.question import read_resolvers

        return read_resolvers(self.program_, types)

    def name_and_types(self) -> tuple[str, tuple[int, ...]]:
        """The name and the types that a program looks up; raise FlagError or QuestionError."""
        from hsdns.explanation.question import read_name

        return read_name(self.word.name, *self.words[1:])

    def resolv_conf_text(self) -> str:
        """The text of the resolv.conf to use, "" for a Pod without that of its node; raise FlagError."""
        if "resolv-conf" not in self.given and "from" in self.given:
            return ""
        path = self.resolv_conf or RESOLV_CONF
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            raise FlagError(
                f"{path} cannot be read: {error.strerror}; give a resolv.conf with --resolv-conf"
            ) from None


class Explain(AskerCommand):
    """Explains the answer."""

    name = "explain"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY
    bad = UNKNOWN

    conf: str | None = flag(
        None, source.CONF, help='Corefile whose server blocks answer, "stdin" for standard input'
    )
    history: bool = flag(False, "show the latest changes to the name, from a running server")
    server: str | None = flag(None, "also query this server, and show where it differs", "ADDRESS")
    port: int = flag(53, "port of --server (default 53)", "PORT", name="p", low=1)
    o: str = flag("text", OUTPUT, help="format: text, a tree for a terminal (default), or json")

    def run(self) -> int:
        """Explain it; a name that does not resolve is a status of its own."""
        from hsdns.cli.running_server import RunningServer
        from hsdns.explanation.question import read_question

        asks, word = self._asks(), self.word
        _, qtype = read_question(word.name, *self.words[1:] if asks is None else ())
        server = self._server()
        place, is_whole = self.found(), True
        is_typed = asks is not None and self.is_typed
        if isinstance(place, RunningServer):
            text = self.words[0]
            if asks is not None and not is_typed:
                text = name_at(place, text, word)
            found = explain_running(place, text, qtype, word.namespace, asks)
        elif self.history:
            raise FlagError(NO_HISTORY)
        else:
            word = word._replace(default=source.default_namespace(place))
            found, is_whole = explain_offline(
                self.conf, place, word, qtype, asks, is_typed=is_typed, runs_code=self.runs_code
            )
        if word.kind != "address":
            say_meant(self.words[0], found.name)
            is_short = word.kind == "host" and not word.is_whole and not is_typed
            is_other = is_short and "." in word.name and taken_for(word.name, found.name)
            if is_other and found.rcode == "NXDOMAIN":
                complain(f"{word.name}. (with the dot) is outside the cluster")
        if server is not None:
            found = _compared(found, *server)
        _write(found, self.o, with_history=self.history)
        if not is_whole and found.outcome != "resolves":
            return UNKNOWN  # what could not be read may be the missing object
        return STATUSES[found.outcome]

    def _asks(self) -> LookupQuestion | None:
        """The lookup of a program, if flags describe one; raise FlagError."""
        given = next((each for each in FLAGS if each in self.given), None)
        if given is None:
            return None
        for other in ("server", "history"):
            if other in self.given:
                raise FlagError(
                    f"--{other} is for one question, and --{given} for a whole lookup; use only one"
                )
        return self.asking()

    def _server(self) -> tuple[str, int] | None:
        """The address and the port of --server; raise FlagError."""
        from hsdns.ask.cli import read_servers

        if self.server is None:
            if "p" in self.given:
                raise FlagError("-p is the port of --server; add --server ADDRESS, or remove -p")
            return None
        [found] = read_servers([self.server], self.port)
        return found


def _write(found: Explanation, output: str, *, with_history: bool) -> None:
    if output == "json":
        say_json(found)
    else:
        from hsdns.explanation.text import lines

        colour = colours.are_shown(sys.stdout)
        say(*lines(found, columns(), colour=colour, with_history=with_history), shown=str)


def say_meant(text: str, name: str) -> None:
    """Say on standard error which name a word is taken for, unless it is the same."""
    complain(*filter(None, [taken_for(text, name)]))


def _compared(found: Explanation, address: str, port: int) -> Explanation:
    from msgspec import structs

    from hsdns.explanation.question import read_question
    from hsdns.explanation.report import compare

    qname, qtype = read_question(found.name, found.type)
    answer = ask_server(address, port, qname, qtype)
    return structs.replace(found, asked=compare(found, f"{address} port {port}", answer))


# Plugins that are not started: they work independently of queries, or query other servers.
NOT_STARTED: Final = frozenset(
    {"cancel", "errors", "forward", "health", "log", "loop", "pprof", "prometheus", "ready", "reload", "secondary"}
)  # fmt: skip


def explain_offline(
    conf: object,
    objects: tuple[Token, ...] | None,
    word: Word,
    qtype: int,
    asks: LookupQuestion | None = None,
    *,
    is_typed: bool = False,
    runs_code: bool = True,
) -> tuple[Explanation, bool]:
    """Explain a question, and return whether everything was read; raise OperatorError or OSError.

    `conf` is the flag, `objects` are the words of -source, `asks` is a program's lookup, `is_typed` of the word itself.
    """
    from hsdns.cli.offline import configure

    configuration, problems = configure(conf, objects, runs_code=runs_code)
    access = None
    if source.is_cluster(objects):
        access = [each.text for each in objects[1:]]
    explaining = _explain(configuration, word, qtype, problems, asks, is_typed=is_typed)

    async def explain() -> tuple[Explanation, bool]:
        async with explaining as (found, blocks):
            if access is not None:
                found = await _with_servers(found, blocks, access, runs_code=runs_code)
            return found, problems.errors == (_unrelated(found, blocks) if asks is None else 0)

    found, is_whole = asyncio.run(explain())
    if conf is not None:
        from hsdns.rules.checks.corefile_hints import never_asked
        from hsdns.wire.name import Name

        hints = never_asked(configuration, found.server_block, Name.from_text(found.name))
        complain(*(f"[HINT] {position}: {sentence}" for position, sentence in hints))
    return found, is_whole


def _unrelated(found: Explanation, blocks: Sequence[Kubernetes]) -> int:
    """How many errors are about refused objects that the name of a Service does not depend on."""
    if found.blind or found.reading.get("kind") != "svc":
        return 0
    return sum(len(getattr(each.source, "refusals", ())) for each in blocks)


@contextlib.asynccontextmanager
async def _explain(
    configuration: Configuration,
    word: Word,
    qtype: int,
    problems: Problems,
    asks: LookupQuestion | None,
    *,
    is_typed: bool,
) -> AsyncIterator[tuple[Explanation, list[Kubernetes]]]:
    """An explanation, with the blocks that it is about."""
    from hsdns.cli.offline import reading
    from hsdns.server.explaining import explain_lookup, name_of

    async with reading(configuration, word.namespaces, NOT_STARTED) as (runtime, blocks):
        name = await name_of(runtime, word, as_typed=is_typed)
        if asks is None:
            found = await explained(configuration, runtime, name, qtype, problems)
        else:
            found = await explain_lookup(
                runtime,
                asks._replace(name=name),
                problems=problems.sentences,
                is_builtin=configuration.corefile.path == source.NAME,
            )
        yield found, blocks


async def explained(
    configuration: Configuration, runtime: ServerRuntime, name: str, qtype: int, problems: Problems
) -> Explanation:
    """The explanation of a question by the plugins of a configuration, which run."""
    from hsdns.explanation.question import read_question
    from hsdns.server.explaining import make_explainer

    is_builtin = configuration.corefile.path == source.NAME
    explainer = make_explainer(runtime, asks=False, is_builtin=is_builtin)
    qname, _ = read_question(name)
    return await explainer.explain(qname, qtype, runtime.clock(), problems.sentences)


async def _with_servers(
    found: Explanation, blocks: list[Kubernetes], access: Sequence[str], *, runs_code: bool
) -> Explanation:
    """The explanation beside what the DNS servers of its cluster answer, each asked as `hsdns doctor` does it."""
    from msgspec import structs

    from hsdns.doctor import servers as dns
    from hsdns.explanation.report import ServersReport, compare
    from hsdns.wire.iana import type_from_text
    from hsdns.wire.name import Name

    if not all(each.store.serves for each in blocks):
        return found
    known, unasked = await dns.found_servers(blocks, access, runs_code=runs_code)
    asked = found.name if found.asker is None else found.asker.decisive
    question = Name.from_text(asked), type_from_text(found.type)

    def look(server: DnsServer) -> ServerReport:
        def ask_once() -> tuple[ServerAnswer, ServerReport]:
            answer = ask_server(server.host, server.port, *question, timeout=dns.EACH)
            return answer, compare(found, f"{server.about} at {server}", answer)

        _, report = dns.settled(
            ask_once, lambda looked: bool(looked[0].error) or not looked[1].differences, time.sleep
        )
        return report

    looked = await asyncio.gather(*(asyncio.to_thread(look, each) for each in known))
    reports = [report for report in looked if report.rcode]
    return structs.replace(found, servers=ServersReport(reports, unasked))


def explain_running(
    server: RunningServer,
    text: str,
    qtype: int,
    namespace: str = "",
    asks: LookupQuestion | None = None,
) -> Explanation:
    """Let a server explain a question about a word, or a lookup; raise ServerError."""
    parameters = {"name": text, "type": type_to_text(qtype)}
    if asks is not None:
        parameters = {**asks.parameters(), "name": text}
    if namespace:
        parameters["namespace"] = namespace
    from hsdns.cli.running_server import NoSuchPage, ServerError
    from hsdns.explanation.report import VERSION, Explanation

    try:
        found = server.get(f"/v1/explain?{urlencode(parameters)}")
    except NoSuchPage:
        raise ServerError(
            f"the server at {server.path} is hsdns {server.version}, which cannot explain; "
            "start this hsdns in its place, or read a source with --source or --conf"
        ) from None
    try:
        if found.get("version") != VERSION:
            raise ValueError
        return msgspec.convert(found, Explanation)
    except ValueError:  # also raised by msgspec
        raise ServerError(
            f"the server at {server.path} is hsdns {server.version}, whose explanations are of another form; "
            "use the hsdns of the server"
        ) from None


def name_at(server: RunningServer, text: str, word: Word) -> str:
    """The domain name that a word means in the cluster of a server; raise ServerError."""
    if word.is_whole:
        return word.name
    return explain_running(server, text, RRType.A, word.namespace).name


TIMEOUT: Final = 5.0  # seconds


def ask_server(
    address: str, port: int, qname: Name, qtype: int, *, timeout: float | None = None
) -> ServerAnswer:
    """The answer of a server to a query with RD."""
    from random import Random

    from hsdns.ask import question
    from hsdns.explanation.report import Record, ServerAnswer
    from hsdns.wire.iana import rcode_to_text
    from hsdns.wire.message import Query
    from hsdns.wire.text import rdata_to_text

    try:
        reply = question.ask(address, port, Query.ask(qname, qtype), timeout or TIMEOUT, Random())
    except question.NoReply as error:
        return ServerAnswer(error=str(error))
    records = tuple(
        Record(
            each.owner.to_text(),
            each.ttl,
            type_to_text(each.rrtype),
            rdata_to_text(each.rrtype, each.rdata),
        )
        for each in reply.answer
    )
    rcode = rcode_to_text(reply.rcode)
    for each in reply.authority:
        if each.rrtype == RRType.SOA:
            ttl = min(each.ttl, int.from_bytes(each.rdata[-4:], "big"))  # RFC 2308 section 5
            return ServerAnswer(rcode, records, each.owner.to_text(), ttl)
    return ServerAnswer(rcode, records)
