"""`hsdns wait NAME [TYPE]`: returns when DNS has the expected answer, for scripts and CI.

Path: argv -> here -> ask/question.py (sends queries), load/cli/cluster.py (right answers) -> standard output.
Rule 1: with -source or -conf it waits until each server's answer matches the objects; with -count for that number of
        records; without these flags for one record or more.
Rule 2: exit status 0: all servers have the answer; 1: not in time; 2: bad input, or the cluster could not be read.
Rule 3: at the timeout it shows each server's answer, and why, with the first line of `hsdns explain`.

The right answer to one question, from the objects of a cluster that changes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from hsdns.ask.names import Word, read_word
from hsdns.cli.command import (
    ANY,
    CONTROL,
    FORMATS,
    IN_NAMESPACE,
    FlagError,
    flag,
    say,
    say_text,
)
from hsdns.cli.source import SourceCommand
from hsdns.corefile.tree import Token
from hsdns.errors import OperatorError
from hsdns.wire.iana import Rcode, RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_to_text

if TYPE_CHECKING:
    from hsdns.ask.cli import Asked
    from hsdns.explanation.report import Explanation
    from hsdns.load.questions import Questions
    from hsdns.load.verify.judge import Answer
    from hsdns.plugins.kubernetes import Kubernetes

PORT: Final = 53
TIMEOUT: Final = 60.0  # seconds
PAUSE: Final = 0.1  # seconds between two queries
EACH: Final = 2.0  # seconds for a reply


class Count(NamedTuple):
    """The expected number of records."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return str(self.least) if self.most else "none"

    def holds(self, number: int) -> bool:
        """Whether a number of records is as expected."""
        return self.least <= number and (self.most is None or number <= self.most)


class Seen(NamedTuple):
    """The last answer of a server: `reply` is None without one, with the reason `why`; `is_right` if as expected."""

    server: str
    reply: Reply | None
    why: str = ""
    is_right: bool = False


# Sends a question to a server; returns the reply, or a sentence.
Ask = Callable[[str], Reply | str]
# The right answer now, from the objects; None if they do not determine it.
Expected = Callable[[], "Answer | None"]


def wait_until_right(
    servers: Sequence[str],
    ask: Ask,
    qtype: int,
    count: Count | None,
    expected: Expected | None,
    timeout: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[list[Seen], float]:
    """Query until all servers are right or the timeout is over; return their last answers, and the seconds it took."""
    began = clock()
    while True:
        seen = [_look(each, ask(each), qtype, count, expected) for each in servers]
        now = clock()
        if all(each.is_right for each in seen) or now - began >= timeout:
            return seen, now - began
        sleep(min(PAUSE, timeout - (now - began)))


class Wait(SourceCommand):
    """Waits for the answer of each server."""

    name = "wait"
    forms = "NAME [TYPE] [FLAG...]"
    most_words = ANY
    interrupted = ("interrupted", 2)

    conf: Annotated[
        str | None,
        flag("Corefile whose kubernetes block says what is right, as the servers' does", "FILE"),
    ] = None
    server: Annotated[
        list[str] | None,
        flag(
            "servers that must answer it (default: the one that runs, or of /etc/resolv.conf)",
            "ADDRESS...",
        ),
    ] = None
    control: Annotated[str | None, CONTROL] = None
    namespace: Annotated[str, IN_NAMESPACE] = ""
    port: Annotated[int, flag(f"their port (default {PORT})", "PORT", name="p", low=1)] = PORT
    count: Annotated[
        str | None,
        flag(
            "records: 3, 3+ for at least so many, 0 for none (default 1+, or the objects')",
            "NUMBER",
        ),
    ] = None
    timeout: Annotated[float, flag("how long to wait (default 60s)", "TIME", time="30s")] = TIMEOUT
    o: Annotated[str, flag("format: text (default) or json", "FORMAT", choices=FORMATS)] = "text"

    def run(self) -> int:
        """Wait, and show each server's answer."""
        from hsdns.ask.cli import servers_to_ask
        from hsdns.explanation.cli import say_meant
        from hsdns.explanation.question import read_question

        text, rrtype = self.name_and_type()
        word = read_word(text, self.namespace)
        read_question(word.name, rrtype)
        count = _count(self.count)
        self.exclusive("control", "server")
        port = self.port if "p" in self.given else None
        asked = servers_to_ask(self.server or [], port, self.control)
        objects = self.objects()
        has_objects = self.conf is not None or objects is not None
        left, cluster, spent = self.timeout, None, 0.0
        if has_objects:
            name = self._explained(objects, word).name if not word.is_whole else word.name
            say_meant(text, name)
            qname, qtype = read_question(name, rrtype)
            cluster = expecting(self.conf, objects, qname, qtype, runs_code=self.runs_code)
        else:
            began = time.monotonic()
            deadline = began + self.timeout
            name = asked.name_meant(text, self.namespace, partial(_exists, asked, deadline))
            qname, qtype = read_question(name, rrtype)
            spent = time.monotonic() - began
            left = max(PAUSE, self.timeout - spent)
        seen, seconds = _wait(Query.ask(qname, qtype), asked.servers, count, left, cluster)
        seconds += spent
        met = all(each.is_right for each in seen)
        why = "" if met else self._why(objects, asked, qname, qtype)
        if count is not None:
            wanted = str(count)
        else:
            wanted = str(Count(1, None)) if cluster is None else "what the objects say"
        if self.o == "json":
            say_text(_json(qname, qtype, seen, seconds, wanted, why))
        else:
            say(*_lines(qname, qtype, seen, seconds, wanted, why))
        return 0 if met else 1

    def _explained(
        self, objects: tuple[Token, ...] | None, word: Word, qtype: int = RRType.A
    ) -> Explanation:
        from hsdns.explanation.cli import explain_offline

        found, _ = explain_offline(self.conf, objects, word, qtype, runs_code=self.runs_code)
        return found

    def _why(self, objects: tuple[Token, ...] | None, asked: Asked, qname: Name, qtype: int) -> str:
        """The first line of an explanation, and its source; "" if there is none."""
        from hsdns.cli.running_server import find
        from hsdns.explanation.cli import explain_running

        name = qname.to_text()
        try:
            if self.conf is not None or objects is not None:
                found = self._explained(objects, Word("host", name, ""), qtype)
                return f"the objects say: {found.cause}"
            running = asked.running or find(None)
            if set(running.dns_addresses()).isdisjoint(asked.servers):
                return ""  # it is another server that was asked
            found = explain_running(running, name, qtype)
            return f"the server that runs here says: {found.cause}"
        except (OperatorError, OSError):
            return ""


def _exists(asked: Asked, deadline: float, name: str) -> bool:
    """Whether the first server has a name, once it replies; a server that is silent until the deadline has none."""
    from hsdns.ask.question import NoReply

    while True:
        try:
            return asked.exists(name)
        except NoReply:
            if time.monotonic() >= deadline:
                return False
            time.sleep(PAUSE)


def _wait(
    query: Query,
    servers: Sequence[tuple[str, int]],
    count: Count | None,
    timeout: float,
    cluster: AbstractContextManager[Expected] | None,
) -> tuple[list[Seen], float]:
    from hsdns.ask.question import NoReply, ask

    drawn = random.Random()
    names = {f"{host} port {port}": (host, port) for host, port in servers}

    def question(server: str) -> Reply | str:
        try:
            return ask(*names[server], query, min(EACH, timeout), drawn)
        except NoReply as error:
            return str(error)

    with ExitStack() as stack:
        expected = None if cluster is None else stack.enter_context(cluster)
        if count is None and expected is None:
            count = Count(1, None)
        return wait_until_right(
            list(names), question, query.qtype, count, expected, timeout, time.monotonic, time.sleep
        )


def _look(
    server: str, found: Reply | str, qtype: int, count: Count | None, expected: Expected | None
) -> Seen:
    if isinstance(found, str):
        return Seen(server, None, found)
    if found.rcode not in (Rcode.NOERROR, Rcode.NXDOMAIN):
        return Seen(server, found)
    is_right = count is None or count.holds(len(_records(found, qtype)))
    if is_right and expected is not None:
        from hsdns.load.verify.judge import answer_of

        right = expected()
        # If the objects do not determine the answer (an ExternalName's target, for example), only the number counts.
        if right is None:
            is_right = count is not None
        else:
            is_right = right == answer_of(found.rcode, found.answer)
    return Seen(server, found, is_right=is_right)


def _records(reply: Reply, qtype: int) -> list[str]:
    return [rdata_to_text(each.rrtype, each.rdata) for each in reply.answer if each.rrtype == qtype]


def _lines(
    qname: Name, qtype: int, seen: Sequence[Seen], seconds: float, wanted: str, why: str
) -> list[str]:
    name = f"{qname.to_text()} {type_to_text(qtype)}"
    lines = []
    for each in seen:
        word = "" if each.is_right else f", wanted {wanted}"
        lines.append(
            f"{name} of {each.server}: {_answer(each, qtype)}{word}, after {seconds:.1f} s"
        )
    if why:
        lines.append(why)
    return lines


def _answer(seen: Seen, qtype: int) -> str:
    if seen.reply is None:
        return seen.why
    records = _records(seen.reply, qtype)
    if not records:
        return rcode_to_text(seen.reply.rcode) if seen.reply.rcode else "no record"
    return f"{len(records)} record{'s' * (len(records) > 1)}"


def _json(
    qname: Name, qtype: int, seen: Sequence[Seen], seconds: float, wanted: str, why: str
) -> str:
    servers: list[dict[str, Any]] = [
        {
            "server": each.server,
            "met": each.is_right,
            "rcode": None if each.reply is None else rcode_to_text(each.reply.rcode),
            "records": [] if each.reply is None else _records(each.reply, qtype),
            "why": each.why,
        }
        for each in seen
    ]
    value = {
        "name": qname.to_text(),
        "type": type_to_text(qtype),
        "wanted": wanted,
        "met": all(each.is_right for each in seen),
        "seconds": round(seconds, 3),
        "servers": servers,
        "why": why,
    }
    return json.dumps(value, indent=2)


def _count(text: str | None) -> Count | None:
    if text is None:
        return None
    digits = text.removesuffix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 7):
        raise FlagError(
            f'-count needs a number such as 3, or 3+ for at least so many, found "{text}"'
        )
    return Count(int(digits), None if text.endswith("+") else int(digits))


@contextmanager
def expecting(
    conf: object,
    objects: tuple[Token, ...] | None,
    qname: Name,
    qtype: int,
    *,
    runs_code: bool = True,
) -> Iterator[Callable[[], Answer | None]]:
    """Watch a cluster, and yield what returns the answer now; raise CorefileError, CannotTell, LoadError or OSError."""
    from hsdns.cli.offline import configure
    from hsdns.load.cli.cluster import LoadCluster
    from hsdns.load.questions import Question, Questions

    def choose(blocks: Sequence[Kubernetes]) -> Questions:
        return Questions([Question(qname, qtype, "waited for")])

    configuration, _ = configure(conf, objects, runs_code=runs_code)
    with LoadCluster(configuration, choose, verifies=True) as cluster:
        truth = cluster.truth
        assert truth is not None, "it verifies"

        yield lambda: truth.latest(0)
