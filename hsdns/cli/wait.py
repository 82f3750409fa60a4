"""`hsdns wait NAME [TYPE]`: returns when DNS has the expected answer, for scripts and CI.

Path: argv -> here -> ask/question.py (sends queries), load/cli/cluster.py (right answers) -> standard output.
Rule 1: with --source, --conf or --context it waits until each server's answer matches the objects, and if these mean a
        name that does not exist, such as that of a Pod that is Pending, until it exists; with -count for that number of
        records; without these flags for one record or more.
Rule 2: exit status 0: all servers have the answer; 1: not in time; 2: bad input, or the cluster could not be read.
Rule 3: at the timeout it shows each server's answer, and why, with the first line of `hsdns explain` and what
        to do.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hsdns.ask.names import Word, read_word
from hsdns.cli.command import ANY, CONTROL, IN_NAMESPACE, OUTPUT, FlagError, flag, say, say_text
from hsdns.cli.source import SourceCommand, default_namespace, is_cluster
from hsdns.colours import RED
from hsdns.corefile.tree import Token
from hsdns.errors import OperatorError
from hsdns.wire.iana import Rcode, rcode_to_text, type_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_to_text

if TYPE_CHECKING:
    from hsdns.ask.cli import Asked
    from hsdns.explanation.report import Explanation
    from hsdns.load.verify.judge import Answer
    from hsdns.plugins.kubernetes import Kubernetes

PORT: Final = 53
TIMEOUT: Final = 60.0  # seconds
PAUSE: Final = 0.1  # seconds between two queries
EACH: Final = 2.0  # seconds for a reply
EXPLAINED: Final = 1.0  # seconds between two explanations of a name that is not there yet


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


class Why(NamedTuple):
    """Why an answer is not right, who says so, and what to do; both are empty if nobody knows."""

    cause: str = ""
    todo: str = ""


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

    conf: str | None = flag(
        None, "Corefile of the servers; its kubernetes block defines the right answer", "FILE"
    )
    server: list[str] | None = flag(
        None,
        "servers that must give the answer (default: of --context, the running one, or of /etc/resolv.conf)",
        "ADDRESS...",
    )
    control: str | None = flag(None, CONTROL)
    namespace: str = flag("", IN_NAMESPACE)
    port: int = flag(PORT, f"port of the servers (default {PORT})", "PORT", name="p", low=1)
    count: str | None = flag(
        None,
        "number of records: 3, 3+ for 3 or more, 0 for none (default 1+, or as in the objects)",
        "NUMBER",
    )
    timeout: float = flag(TIMEOUT, "how long to wait (default 60s)", "TIME", time="30s")
    o: str = flag("text", OUTPUT)

    def run(self) -> int:
        """Wait, and show each server's answer."""
        from hsdns.explanation.question import read_question

        text, rrtype = self.name_and_type()
        word = read_word(text, self.namespace)
        read_question(word.name, rrtype)
        count = _count(self.count)
        self.exclusive("control", "server")
        objects = self.objects()
        with ExitStack() as stack:
            if self.conf is None and objects is None:
                found = self._of_servers(text, rrtype, word)
                count = Count(1, None) if count is None else count
            else:
                found = stack.enter_context(self._of_objects(objects, word, rrtype))
            qname, qtype = found.qname, found.qtype
            query = Query.ask(qname, qtype)
            seen, seconds = _wait(query, found.servers, count, found.left, found.expected)
            met = all(each.is_right for each in seen)
            why = Why() if met else found.why()
        seconds += self.timeout - found.left
        wanted = "what the objects say" if count is None else str(count)
        if self.o == "json":
            say_text(_json(qname, qtype, seen, seconds, wanted, why))
        else:
            words = {f"wanted {wanted}": RED}
            say(*_lines(qname, qtype, seen, seconds, wanted, why), words=words, fits=True)
        return 0 if met else 1

    def _asked(self, word: Word | None = None) -> Asked:
        from hsdns.ask.cli import servers_to_ask

        port = self.port if "p" in self.given else None
        return servers_to_ask(self.server or [], port, self.control, word, runs_code=self.runs_code)

    def _of_servers(self, text: str, rrtype: str, word: Word) -> Waiting:
        """What servers alone are asked."""
        from hsdns.explanation.question import read_question

        asked, began = self._asked(word), time.monotonic()
        exists = partial(_exists, asked, began + self.timeout)
        name = asked.name_meant(text, self.namespace, exists)
        qname, qtype = read_question(name, rrtype)

        why = partial(_server_says, asked, qname, qtype)
        left = max(PAUSE, self.timeout - (time.monotonic() - began))
        return Waiting(asked.servers, qname, qtype, left, why)

    @contextmanager
    def _of_objects(
        self, objects: tuple[Token, ...] | None, word: Word, rrtype: str
    ) -> Iterator[Waiting]:
        """What is asked of servers, and right by the objects; of a cluster its own DNS servers, unless flags name some.

        Raise CorefileError, CannotTell, LoadError or OSError.
        """
        import asyncio

        from hsdns.cli.offline import CannotTell, configure, say_unread
        from hsdns.doctor.servers import found_servers
        from hsdns.explanation.cli import NOT_STARTED, explained, say_meant
        from hsdns.explanation.observed import not_known
        from hsdns.explanation.question import read_question
        from hsdns.load.cli.cluster import LoadCluster
        from hsdns.load.questions import Question, Questions
        from hsdns.server.explaining import name_of

        is_own = is_cluster(objects) and not self.server and self.control is None
        asked = None if is_own else self._asked()
        servers = [] if asked is None else asked.servers
        word = word._replace(default=default_namespace(objects))
        configuration, problems = configure(self.conf, objects, runs_code=self.runs_code)
        seen: list[Kubernetes] = []

        async def choose(blocks: Sequence[Kubernetes]) -> Questions:
            say_unread(blocks)
            name = await name_of(cluster.runtime, word)
            say_meant(self.words[0], name)
            question = Question(*read_question(name, rrtype), "waited for")
            for each in blocks:
                if why := not_known(each, question.query()):
                    raise CannotTell(why)
            seen.extend(blocks)
            return Questions([question])

        def explanation() -> Explanation:
            name = question.name.to_text()
            explaining = explained(configuration, cluster.runtime, name, question.qtype, problems)
            return cluster.call(explaining)

        def why() -> Why:
            said = _server_says(asked, question.name, question.qtype) if asked else Why()
            if said.cause:
                return said
            found = explanation()
            return Why(f"the objects say: {found.cause}", found.todo)

        is_meant = LastKnown(lambda: explanation().is_intended, time.monotonic)

        def expected() -> Answer | None:
            assert truth is not None, "it verifies"
            right = truth.latest(0)
            is_denied = right is not None and right.rcode == Rcode.NXDOMAIN
            if right is not None and is_denied and self.count is None and is_meant():
                return right._replace(rcode=UNMET)
            return right

        cluster = LoadCluster(
            configuration, choose, verifies=True, within=word.namespaces, without=NOT_STARTED
        )
        with cluster:
            truth, (question,) = cluster.truth, cluster.questions.all
            assert truth is not None, "it verifies"
            if is_own and objects is not None:
                access = [each.text for each in objects[1:]]
                finding = found_servers(seen, access, runs_code=self.runs_code)
                found, unasked = asyncio.run(finding)
                servers = [(each.host, each.port) for each in found]
                if not servers:
                    raise CannotTell(unasked)
            yield Waiting(servers, question.name, question.qtype, self.timeout, why, expected)


# Where the objects mean a name that does not exist: no answer that a server gives is right.
UNMET: Final = Rcode.SERVFAIL


def _server_says(asked: Asked, qname: Name, qtype: int) -> Why:
    """Why the server that runs here answers so, if it is one of those that are asked."""
    from hsdns.cli.running_server import find
    from hsdns.explanation.cli import explain_running

    try:
        running = asked.running or find(None)
        if set(running.dns_addresses()).isdisjoint(asked.servers):
            return Why()
        found = explain_running(running, qname.to_text(), qtype)
    except (OperatorError, OSError):
        return Why()
    return Why(f"the server that runs here says: {found.cause}", found.todo)


class LastKnown:
    """What a function said within the last second, asked again after it; `clock` gives monotonic seconds."""

    def __init__(self, ask: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._until, self._said = float("-inf"), False

    def __call__(self) -> bool:
        """Whether it is so."""
        if self._clock() >= self._until:
            self._said = self._ask()
            self._until = self._clock() + EXPLAINED
        return self._said


class Waiting(NamedTuple):
    """The servers to ask, the question, the seconds that are left, why it is not right, and the right answer now."""

    servers: Sequence[tuple[str, int]]
    qname: Name
    qtype: int
    left: float
    why: Callable[[], Why]
    expected: Expected | None = None


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
    expected: Expected | None,
) -> tuple[list[Seen], float]:
    from hsdns.ask.question import NoReply, ask
    from hsdns.load.verify.message import is_usable

    drawn = random.Random()
    names = {f"{host} port {port}": (host, port) for host, port in servers}

    def question(server: str) -> Reply | str:
        try:
            found = ask(*names[server], query, min(EACH, timeout), drawn)
        except NoReply as error:
            return str(error)
        return found if is_usable(found, query) else "its records have another name or class"

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
            is_right = (count or Count(1, None)).holds(len(_records(found, qtype)))
        else:
            is_right = answer_of(found.rcode, found.answer, found.additional).says(right)
    return Seen(server, found, is_right=is_right)


def _records(reply: Reply, qtype: int) -> list[str]:
    # Resolvers take no records from a reply that denies the name, which `rewrite rcode` can make.
    if reply.rcode:
        return []
    return [rdata_to_text(each.rrtype, each.rdata) for each in reply.answer if each.rrtype == qtype]


def _lines(
    qname: Name, qtype: int, seen: Sequence[Seen], seconds: float, wanted: str, why: Why
) -> list[str]:
    name = f"{qname.to_text()} {type_to_text(qtype)}"
    lines = []
    for each in seen:
        word = "" if each.is_right else f", wanted {wanted}"
        lines.append(
            f"{name} of {each.server}: {_answer(each, qtype)}{word}, after {seconds:.1f} s"
        )
    lines += [why.cause] if why.cause else []
    return [*lines, f"to do: {why.todo}"] if why.todo else lines


def _answer(seen: Seen, qtype: int) -> str:
    if seen.reply is None:
        return seen.why
    records = _records(seen.reply, qtype)
    if not records:
        return rcode_to_text(seen.reply.rcode) if seen.reply.rcode else "no record"
    return f"{len(records)} record{'s' * (len(records) > 1)}"


def _json(
    qname: Name, qtype: int, seen: Sequence[Seen], seconds: float, wanted: str, why: Why
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
        "why": why.cause,
        "todo": why.todo,
    }
    return json.dumps(value, indent=2)


def _count(text: str | None) -> Count | None:
    if text is None:
        return None
    digits = text.removesuffix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 7):
        raise FlagError(f'--count needs a number such as 3, or 3+ for 3 or more, found "{text}"')
    return Count(int(digits), None if text.endswith("+") else int(digits))
