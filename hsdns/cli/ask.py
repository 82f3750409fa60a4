"""`hsdns ask NAME/TYPE...`: the answers of DNS servers to questions, as JSON for another program.

Path: argv, which cli/doctor_pod.py gives to a container in a Pod -> here -> exchange.py -> standard output.
Rule 1: names are used without a search list; a silent server gets no further queries.
Rule 2: no answer of a server is a failure of this command: its exit status is 0 if it sent the queries.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from hsdns.cli.command import ANY, Command, flag
from hsdns.cli.exchange import NoReply, Refused, ask_again
from hsdns.cli.flags import FlagError
from hsdns.cli.lookup import servers_of
from hsdns.cli.output import say
from hsdns.corefile.keys import split_ip_port
from hsdns.wire.iana import rcode_to_text, type_from_text
from hsdns.wire.message import RD, Query
from hsdns.wire.name import Name

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
        if not self.words:
            raise FlagError("hsdns ask needs a question: hsdns ask NAME/TYPE...")
        questions = {word: _query(word) for word in self.words}
        servers = _servers(self.server)
        say(json.dumps([_answers(host, port, questions) for host, port in servers]))
        return 0


def _answers(host: str, port: int, questions: Mapping[str, Query]) -> dict[str, Any]:
    """The answers of a server; records are the number of the type and the RDATA in hexadecimal."""
    said, silence, refused = list[dict[str, Any]](), "", False
    drawn = random.Random()
    for word, query in questions.items():
        try:
            reply = ask_again(host, port, query, EACH, drawn, TRIES)
        except NoReply as error:
            silence = f"{error}, when asked for {word.replace('/', ' ')}"
            refused = isinstance(error, Refused)
            break
        records = [[each.rrtype, each.rdata.hex()] for each in reply.answer]
        said.append({"question": word, "rcode": rcode_to_text(reply.rcode), "records": records})
    return {"host": host, "port": port, "answers": said, "silence": silence, "refused": refused}


def _query(word: str) -> Query:
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


def _servers(given: Sequence[str]) -> Sequence[tuple[str, int]]:
    found = []
    for word in given or servers_of():
        place = split_ip_port(word, PORT)
        if place is None:
            raise FlagError(f'-server needs an IP address, or one with a port, found "{word}"')
        found.append((place.host, place.port))
    return found
