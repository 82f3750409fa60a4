"""`hsdns lookup NAME [TYPE]`: one query, for the image, which has no other program for that.

Path: argv -> here -> a DNS server.
Rule: the name is used without a search list; for an IP address the reverse name is queried.

`hsdns ask NAME/TYPE...`: the answers of DNS servers to questions, as JSON for another program:
Rule 1: names are used without a search list; a silent server gets no further queries.
Rule 2: no answer of a server is a failure of this command: its exit status is 0 if it sent the queries.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final

from hsdns.cli.command import ANY, Command, FlagError, complain, flag, say

if TYPE_CHECKING:
    from hsdns.wire.message import Query

TIMEOUT: Final = 5.0  # seconds


class Lookup(Command):
    """Sends the query; the exit status is 0 if there is an answer."""

    name = "lookup"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY
    bad = 1

    server: Annotated[
        str, flag("the server to ask (default: the first one in /etc/resolv.conf)", "ADDRESS")
    ] = ""
    port: Annotated[int, flag("its port (default 53)", "PORT", name="p", low=1)] = 53
    tcp: Annotated[bool, flag("ask over TCP; without, only where the reply does not fit")] = False

    def run(self) -> int:
        """Ask, and print the records, or why there are none."""
        name, rrtype = self.name_and_type()
        server = self.server or first_server()
        printed, status = ask(name, rrtype, server, self.port, is_tcp=self.tcp)
        (complain if status else say)(*printed)
        return status


def ask(name: str, rrtype: str, server: str, port: int, *, is_tcp: bool) -> tuple[list[str], int]:
    """Send a query; return a line for each record, or why there are none, and the exit status.

    Raise FlagError for an invalid name, type or server.
    """
    from random import Random

    from hsdns.ask import question
    from hsdns.wire.iana import Rcode, rcode_to_text, type_from_text, type_to_text
    from hsdns.wire.message import Query
    from hsdns.wire.name import Name
    from hsdns.wire.text import rdata_to_text

    rrtype = rrtype.upper()
    with contextlib.suppress(ValueError):
        name = f"{ip_address(name).reverse_pointer}."
        rrtype = rrtype or "PTR"
    rrtype = rrtype or "A"
    try:
        qname = Name.from_text(name if name.isascii() else name.encode("idna").decode())
        query = Query.ask(qname, type_from_text(rrtype))
        ip_address(server)
    except ValueError as error:
        raise FlagError(f"cannot ask {server} for {name} {rrtype}: {error}") from None
    try:
        reply = question.ask(server, port, query, TIMEOUT, Random(), is_tcp=is_tcp)
    except question.NoReply as error:
        return [str(error)], 1
    if reply.rcode != Rcode.NOERROR:
        return [f"{name} {rrtype}: {rcode_to_text(reply.rcode)}"], 1
    if not reply.answer:
        return [f"{name} exists, but has no {rrtype} record"], 1
    return [
        f"{rr.owner.to_text()} {rr.ttl} IN {type_to_text(rr.rrtype)} {rdata_to_text(rr.rrtype, rr.rdata)}"
        for rr in reply.answer
    ], 0


def first_server(path: str = "/etc/resolv.conf") -> str:
    """The first name server of a resolv.conf; raise FlagError if it has none."""
    return servers_of(path)[0]


def servers_of(path: str = "/etc/resolv.conf") -> list[str]:
    """The name servers of a resolv.conf; raise FlagError if it has none."""
    found = []
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            words = line.split()
            if words[:1] == ["nameserver"] and len(words) > 1:
                found.append(words[1])
    if found:
        return found
    raise FlagError(f"{path} names no server; give one with -server")


PORT: Final = 53
EACH: Final = 1.0  # seconds for a reply
TRIES: Final = 2


class Ask(Command):
    """Sends the questions; prints the answers of each server."""

    name = "ask"
    forms = "NAME/TYPE... [FLAG...]"
    most_words = ANY

    server: Annotated[
        list[str], flag("servers to ask (default: those in /etc/resolv.conf)", "ADDRESS...")
    ] = []

    def run(self) -> int:
        """Ask each server each question."""
        import json

        if not self.words:
            raise FlagError("hsdns ask needs a question: hsdns ask NAME/TYPE...")
        questions = {word: _query(word) for word in self.words}
        servers = read_servers(self.server or servers_of())
        say(json.dumps([_answers(host, port, questions) for host, port in servers]))
        return 0


def _answers(host: str, port: int, questions: Mapping[str, Query]) -> dict[str, Any]:
    """The answers of a server; records are the number of the type and the RDATA in hexadecimal."""
    import random

    from hsdns.ask import question
    from hsdns.wire.iana import rcode_to_text

    said, silence, refused = list[dict[str, Any]](), "", False
    drawn = random.Random()
    for word, query in questions.items():
        try:
            reply = question.ask(host, port, query, EACH, drawn, TRIES)
        except question.NoReply as error:
            silence = f"{error}, when asked for {word.replace('/', ' ')}"
            refused = isinstance(error, question.Refused)
            break
        records = [[each.rrtype, each.rdata.hex()] for each in reply.answer]
        said.append({"question": word, "rcode": rcode_to_text(reply.rcode), "records": records})
    return {"host": host, "port": port, "answers": said, "silence": silence, "refused": refused}


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


def read_servers(words: Sequence[str]) -> list[tuple[str, int]]:
    """The addresses and ports of -server; raise FlagError."""
    from hsdns.corefile.keys import split_ip_port

    found = []
    for word in words:
        place = split_ip_port(word, PORT)
        if place is None:
            raise FlagError(f'-server needs an IP address, or one with a port, found "{word}"')
        found.append((place.host, place.port))
    return found
