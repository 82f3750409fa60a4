"""`hsdns lookup NAME [TYPE]`: one query, for the image, which has no other program for that.

Path: argv -> here -> a DNS server.
Rule: the name is used without a search list, a short one as ask/names.py says; for an IP address the reverse name is
      queried.

`hsdns ask NAME/TYPE...`: the answers of DNS servers to questions, as JSON for another program:
Rule 1: names are used without a search list; a silent server gets no further queries.
Rule 2: no answer of a server is a failure of this command: its exit status is 0 if it sent the queries.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hsdns.cli.command import (
    ANY,
    CONTEXT,
    CONTROL,
    IN_NAMESPACE,
    KUBECONFIG,
    OUTPUT,
    Command,
    Contradiction,
    FlagError,
    ReadingCommand,
    complain,
    flag,
    say,
    say_json,
)
from hsdns.errors import OperatorError

if TYPE_CHECKING:
    from hsdns.ask.names import Word
    from hsdns.cli.running_server import RunningServer
    from hsdns.wire.message import Query

RESOLV_CONF: Final = "/etc/resolv.conf"
TIMEOUT: Final = 5.0  # seconds


class Asked(NamedTuple):
    """DNS servers, with the name, or what reads a short one: the cluster domain, or one of them that runs here."""

    servers: list[tuple[str, int]]
    domain: str
    running: RunningServer | None = None
    name: str = ""

    def exists(self, name: str, *, is_tcp: bool = False) -> bool:
        """Whether the first server has a domain name; raise NoReply."""
        from random import Random

        from hsdns.ask.question import ask
        from hsdns.explanation.question import read_question
        from hsdns.wire.message import Query

        (host, port), *_ = self.servers
        query = Query.ask(*read_question(name))
        return not ask(host, port, query, TIMEOUT, Random(), is_tcp=is_tcp).rcode

    def name_meant(
        self, text: str, namespace: str, exists: Callable[[str], bool] | None = None
    ) -> str:
        """The domain name that a word means, which standard error says; raise OperatorError or NoReply.

        `exists` says whether there is a domain name, by default exists().
        """
        from hsdns.ask.names import DOMAIN, BadWord, full_name, read_word
        from hsdns.explanation.cli import name_at, say_meant

        word = read_word(text, namespace)
        if word.kind == "address":
            return word.name
        if self.name:
            name = self.name
        elif self.running is not None:
            name = name_at(self.running, text, word)
        elif word.kind == "pod":
            raise BadWord(f"{text}: DNS does not list the names of a Pod; run hsdns explain {text}")
        else:
            is_named = namespace or word.kind != "host"
            domain = self.domain or (DOMAIN if is_named else "")
            has = exists or self.exists
            name = full_name(word, domain, [domain], lambda label: has(f"{label}.svc.{domain}."))
        say_meant(text, name)
        return name


def servers_to_ask(
    words: Sequence[str],
    port: int | None,
    control: str | None,
    word: Word | None = None,
    *,
    runs_code: bool = True,
) -> Asked:
    """The servers of --server, else the one that runs, else that of resolv.conf, which standard error says.

    With `word`, which a person means, those of the current context of a kubeconfig come before resolv.conf.  In a pod
    that has them anyway.  `port` is -p, `control` --control.  Raise OperatorError.
    """
    from hsdns.ask.names import DOMAIN

    if words:
        return Asked(read_servers(words, port or PORT), domain_of(RESOLV_CONF) or DOMAIN)
    from hsdns.cli.running_server import NotRunning, looking_at

    try:
        running = looking_at(control)
    except NotRunning:
        found = None
        if word is not None and word.is_of_cluster and port is None:
            found = _of_current_context(word, runs_code=runs_code)
        return found or of_resolv_conf(RESOLV_CONF, port)
    host, own = running.dns_address()
    if port not in (None, own):
        raise Contradiction(
            f"the server with process ID {running.pid} listens on port {own}, not {port}; "
            "remove -p, or add --server"
        )
    return Asked([(host, own)], "", running)


def of_context(kubeconfig: str, context: str, word: Word, *, runs_code: bool) -> Asked:
    """The DNS servers of the cluster of a kubeconfig, and the domain name that a word means; raise OperatorError."""
    from hsdns.cli.source import access_of, cluster_tokens, default_namespace
    from hsdns.doctor.servers import servers_and_name

    objects = cluster_tokens(access_of(kubeconfig, context))
    word = word._replace(default=default_namespace(objects))
    servers, name = servers_and_name(objects, word, runs_code=runs_code)
    return Asked(servers, "", name=name)


def _of_current_context(word: Word, *, runs_code: bool) -> Asked | None:
    """Those of the current context; None if there are none to ask, which standard error says."""
    from hsdns.cli.source import cluster_text, find_kubeconfig, is_in_pod

    if is_in_pod():
        return None
    with contextlib.suppress(FlagError):
        path, context = find_kubeconfig()
        complain(f"looking at {cluster_text((path, context))}")
        try:
            return of_context(path, context, word, runs_code=runs_code)
        except (OperatorError, OSError) as error:
            complain(error)
    return None


def of_resolv_conf(path: str, port: int | None = None) -> Asked:
    """The first nameserver of a resolv.conf, which standard error names; raise FlagError if it has none."""
    host = servers_of(path)[0]
    complain(f"querying nameserver {host} of {path}")
    return Asked([(host, port or PORT)], domain_of(path))


class Lookup(ReadingCommand):
    """Sends the query; the exit status is 0 if there is an answer."""

    name = "lookup"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY

    server: str = flag(
        "",
        "server to query (default: that of --context, the running one, or that of /etc/resolv.conf)",
        "ADDRESS",
    )
    control: str | None = flag(None, CONTROL)
    kubeconfig: str = flag("", KUBECONFIG)
    context: str = flag("", CONTEXT)
    namespace: str = flag("", IN_NAMESPACE)
    port: int = flag(53, "port of the server (default 53)", "PORT", name="p", low=1)
    tcp: bool = flag(False, "query over TCP (default: only if the reply does not fit)")
    o: str = flag("text", OUTPUT)

    def run(self) -> int:
        """Ask, and print the records, or why there are none."""
        from random import Random

        from hsdns.ask import question
        from hsdns.ask.names import read_word
        from hsdns.explanation.question import read_question
        from hsdns.wire.iana import Rcode, RRType, rcode_to_text, type_to_text
        from hsdns.wire.message import Query
        from hsdns.wire.text import rdata_to_text

        text, rrtype = self.name_and_type()
        word = read_word(text, self.namespace)
        read_question(word.name, rrtype)
        self.exclusive("control", "server", "context", "kubeconfig")
        self.exclusive("server", "context", "kubeconfig")
        port = self.port if "p" in self.given else None
        try:
            if self.given.isdisjoint(("context", "kubeconfig")):
                words = [self.server] if self.server else []
                asked = servers_to_ask(words, port, self.control, word, runs_code=self.runs_code)
            else:
                asked = of_context(self.kubeconfig, self.context, word, runs_code=self.runs_code)
            exists = partial(asked.exists, is_tcp=self.tcp)
            (host, port), *_ = asked.servers
            name = asked.name_meant(text, self.namespace, exists)
            qname, qtype = read_question(name, rrtype)
            query = Query.ask(qname, qtype)
            reply = question.ask(host, port, query, TIMEOUT, Random(), is_tcp=self.tcp)
        except question.NoReply as error:
            raise OperatorError(f"{error}; check --server and -p") from None
        records = [
            {
                "name": each.owner.to_text(),
                "type": type_to_text(each.rrtype),
                "ttl": each.ttl,
                "data": rdata_to_text(each.rrtype, each.rdata),
            }
            for each in reply.answer
        ]
        if self.o == "json":
            asked_for = {
                "host": host,
                "port": port,
                "name": qname.to_text(),
                "type": type_to_text(qtype),
            }
            say_json({**asked_for, "rcode": rcode_to_text(reply.rcode), "records": records})
        if reply.rcode != Rcode.NOERROR:
            complain(f"{name} {type_to_text(qtype)}: {rcode_to_text(reply.rcode)}")
        elif not reply.answer:
            complain(f"{name} exists, but has no {type_to_text(qtype)} record")
        if self.o == "text" and reply.rcode == Rcode.NOERROR:
            say(*("{name} {ttl} IN {type} {data}".format_map(each) for each in records))
        types = {each.rrtype for each in reply.answer}
        if (
            reply.rcode == Rcode.NOERROR
            and types == {RRType.CNAME}
            and qtype not in (RRType.CNAME, RRType.ANY)
        ):
            complain(
                f"{name} is an alias, and the answer has no {type_to_text(qtype)} record of its target"
            )
            return 1
        return 0 if reply.rcode == Rcode.NOERROR and reply.answer else 1

    @classmethod
    def status_of(cls, error: Exception) -> int:
        """2 where the cluster does not say whom to ask."""
        from hsdns.cli.offline import CannotTell

        return 2 if isinstance(error, CannotTell) else super().status_of(error)


def servers_of(path: str) -> list[str]:
    """The name servers of a resolv.conf; raise FlagError if it has none."""
    found = [words[1] for words in _lines_of(path) if words[0] == "nameserver" and len(words) > 1]
    if found:
        return found
    raise FlagError(f"{path} has no nameserver; add --server ADDRESS")


def domain_of(path: str) -> str:
    """The cluster domain in the search list of a resolv.conf, "" if there is none."""
    found = [each for words in _lines_of(path) if words[0] == "search" for each in words[1:]]
    return next((each[4:].strip(".") for each in found if each.startswith("svc.")), "")


def _lines_of(path: str) -> list[list[str]]:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return [words for line in file if (words := line.split())]
    return []


PORT: Final = 53
EACH: Final = 1.0  # seconds for a reply
TRIES: Final = 2


class Ask(Command):
    """Sends the questions; prints the answers of each server."""

    name = "ask"
    forms = "NAME/TYPE... [FLAG...]"
    most_words = ANY

    server: list[str] = flag(
        [], "servers to query (default: those in /etc/resolv.conf)", "ADDRESS..."
    )

    def run(self) -> int:
        """Ask each server each question."""
        import json

        if not self.words:
            raise FlagError("hsdns ask needs a question: hsdns ask NAME/TYPE...")
        questions = {word: _query(word) for word in self.words}
        servers = read_servers(self.server or servers_of(RESOLV_CONF))
        say(json.dumps([_answers(host, port, questions) for host, port in servers]))
        return 0


def _answers(host: str, port: int, questions: Mapping[str, Query]) -> dict[str, Any]:
    """The answers of a server; records are the number of the type and the RDATA in hexadecimal."""
    import random

    from hsdns.ask import question
    from hsdns.wire.iana import rcode_to_text

    drawn = random.Random()

    def look(word: str) -> dict[str, Any]:
        reply = question.ask(host, port, questions[word], EACH, drawn, TRIES)
        records = [[each.rrtype, each.rdata.hex()] for each in reply.answer]
        return {"question": word, "rcode": rcode_to_text(reply.rcode), "records": records}

    said, silence = question.ask_all({each.replace("/", " "): each for each in questions}, look)
    return {"host": host, "port": port, "answers": said, **silence}


def _query(word: str) -> Query:
    from hsdns.wire.iana import type_from_text
    from hsdns.wire.message import RD, Query
    from hsdns.wire.name import Name

    name, _, rrtype = word.rpartition("/")
    try:
        if not name:
            raise ValueError
        owner = Name.from_text(name if name.endswith(".") else f"{name}.")
        return Query.ask(owner, type_from_text(rrtype), flags=RD)
    except ValueError:
        raise FlagError(
            f'hsdns ask needs NAME/TYPE, such as db.shop.svc.cluster.local/A, found "{word}"'
        ) from None


def read_servers(words: Sequence[str], port: int = PORT) -> list[tuple[str, int]]:
    """The addresses and ports of --server, ADDRESS or ADDRESS:PORT; raise FlagError."""
    from hsdns.corefile.keys import split_ip_port

    found = []
    for word in words:
        place = split_ip_port(word, port)
        if place is None:
            raise FlagError(f'--server needs an IP address, or one with a port, found "{word}"')
        found.append((place.host, place.port))
    return found
