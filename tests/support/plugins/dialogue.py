"""Dialogues with plugins, in the form in which tests/plugins/dialogues writes them.

Path: tests/plugins/test_dialogues.py reads the files with cases() and plays each case with play().

What stands before the first case is a comment; a line `<NAME> = TEXT` in it names a text.  A case is `== TITLE`, then
lines of a Corefile, in which FILES is a folder of files for all cases; a line `zones: ...` before them has the zones of
the block.  Then follow, one to a line:

    ? www.example.org. A tcp      a query from a client; `?` alone repeats the last one
    > same norec                  what the plugins ask the next plugin; `same` is the client's question
    < NOERROR aa; @ 60 A 10.0.0.1 what the next plugin replies
    >> b.example.org. A           what they resolve through the whole server, `<<` is the reply
    to 10.0.0.2:53 udp 5s         what `forward` asks an upstream, for how long; `<` is the reply, `< silence` none in this
                                  time, `< wrong question` one to another question, `< refused` that it cannot be reached
    = NOERROR; @ 60 A 10.0.0.1    the reply to the client
    log: [INFO] plugin/log: ...   a line of the log
    after: 10s                    time that passes, also between > and <
    sleeps: 0.5s                  what a plugin waits for; the time passes
    down: 10.0.0.2:53             the upstream has failed its probes
    loops: 10.0.0.2:53            `loop` has found that the upstream sends queries back
    event:                        replies that hold as long as the cluster does not know a name hold no more
    beside: 1                     the tasks that plugins have begun run now, with lines > and <; how many there were
    stop:                         the plugins are stopped
    metric: NAME{...} 1.0         a line of the metrics; with `none` in place of the value there is no such line
    | a | b |                     a table: the case is played for each row, with <a> and <b> replaced by its cells

Rule 1: what is not written does not happen.  A query without > and < reaches no other plugin; < without > replies to any
        question, > without < is replied to by BELOW.
Rule 2: a question is `NAME TYPE [WORD]...`, see question_text().
Rule 3: a reply is `RCODE [WORD]...[; RECORD]...`, see reply_text(), a record `[SECTION: ]OWNER TTL TYPE RDATA [xN]`, in
        which @ is the name of the client's question and xN says how often it stands there.  A line that begins with two
        spaces goes on with the records of the one before it.
Rule 4: `= below` is the next plugin's reply itself; words after it say what is different: `ttl=5` of all records, `aa`,
        `-ad`, `bare` without authority and additional.  `= passed` stands for a query that is passed on and not touched.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hsdns.assemble import plugin_class
from hsdns.chain import Request
from hsdns.plugins.forward import Forward
from hsdns.plugins.whoami import Whoami
from hsdns.upstream.exchange import Upstream
from hsdns.wire.decode import WrongQuestion
from hsdns.wire.edns import Edns
from hsdns.wire.iana import class_to_text, rcode_from_text, rcode_to_text, type_to_text
from hsdns.wire.message import AA, AD, CD, RA, RD, RR, Query, Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr_text
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block
from tests.support.tables import section, sections

START = 1000.0  # seconds on the clock
FILES = Path(__file__).parents[2] / "plugins" / "dialogues" / "files"
BELOW = reply(["below. 1 IN A 192.0.2.1"])
_BEGINS = re.compile(r"(?m)^(\?|after:|down:|loops:|event:|beside:|stop:|metric:)")
_ASKED = frozenset((">", "<", ">>", "<<", "to"))
_TIME = frozenset(("after:", "sleeps:"))
_NOTIFY = 4 << 11
_QUERY_FLAGS = {"ad": AD, "cd": CD, "aa": AA, "ra": RA, "notify": _NOTIFY}
_REPLY_FLAGS = ("aa", "ra", "ad", "tc", "fresh", "dropped")


def cases(path: Path) -> Iterator[tuple[str, str]]:
    """The titles and texts of a file's cases, one for each row of a table."""
    head = path.read_text().partition("\n== ")[0]
    constants = dict(re.findall(r"(?m)^(<\w+>) = (.*)$", head))
    for title in sections(path):
        text, *table = re.split(r"\n(?=\|)", section(path, title))
        cells = [[cell.strip() for cell in re.split(r" \|(?: |$)", row[2:])[:-1]] for row in table]
        for row in cells[1:] or [[]]:
            case = text
            for name, cell in zip(cells[0] if cells else (), row, strict=True):
                case = case.replace(f"<{name}>", cell.replace("\\n", "\n"))
            for name, value in constants.items():
                case = case.replace(name, value.replace("\\n", "\n"))
            yield ": ".join([title, *row[:1]]), case


def _option(code: int, data: bytes) -> str:
    return f"{code}:{data.hex()}"


def _options(words: Iterable[str]) -> tuple[tuple[int, bytes], ...]:
    pairs = (word.partition(":") for word in words if word)
    return tuple((int(code), bytes.fromhex(data)) for code, _, data in pairs)


def _edns_text(edns: Edns) -> str:
    words = [str(edns.payload_size), *["do"] * edns.do, *(_option(*each) for each in edns.options)]
    return "edns=" + ",".join(words)


def _edns(text: str) -> Edns:
    size, *words = text.split(",")
    return Edns(
        int(size), do="do" in words, options=_options(each for each in words if each != "do")
    )


def question_text(request: Request) -> str:
    """The question of a request, with what differs from a plain query over UDP."""
    query = request.query
    words = [query.qname.to_text(), type_to_text(query.qtype)]
    if query.qclass != 1:
        words.append(f"class={class_to_text(query.qclass)}")
    words += [name for name, bit in _QUERY_FLAGS.items() if query.flags & bit == bit]
    words += ["norec"] * (not query.flags & (RD | _NOTIFY)) + ["tcp"] * (request.protocol == "tcp")
    if query.edns is not None:
        words.append(_edns_text(query.edns))
    for name, value, usual in (
        ("client", request.client.address, "127.0.0.1"),
        ("server", request.server, "dns://:53"),
        ("view", request.view, ""),
        ("depth", str(request.depth), "0"),
    ):
        if value != usual:
            words.append(f"{name}={value}")
    return " ".join(words)


def make_question(text: str, now: float = 0.0) -> Request:
    """The request of a question in the form of question_text()."""
    qname, qtype, *words = text.split()
    named = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    bits = sum(bit for name, bit in _QUERY_FLAGS.items() if name in named)
    return make_request(
        qname,
        qtype,
        qclass=named.get("class", "IN"),
        protocol="tcp" if "tcp" in named else "udp",
        edns=_edns(named["edns"]) if "edns" in named else None,
        flags=bits if "norec" in named or "notify" in named else bits | RD,
        client=named.get("client", "127.0.0.1"),
        server=named.get("server", "dns://:53"),
        depth=int(named.get("depth", "0")),
        now=now,
    ).replace(view=named.get("view", ""))


def reply_text(found: Reply) -> str:
    """A reply as text: every field that is not the default, then its records."""
    words = [rcode_to_text(found.rcode)]
    words += [each for each in _REPLY_FLAGS if getattr(found, each)]
    words += ["unwritten"] * (not found.written)
    if found.rd is not None:
        words.append("rd" if found.rd else "norec")
    if found.still_holds is not None:
        words.append("holds" if found.still_holds() else "outdated")
    if found.edns is not None:
        words.append(_edns_text(found.edns))
    if found.edns_options is not None:
        words.append("options=" + ",".join(_option(*each) for each in found.edns_options))
    if found.extended_errors:
        words.append(f"errors={found.extended_errors.hex()}")
    if found.sign is not None:
        words.append("signed")
    records = [rr_text(each) for each in found.answer]
    records += [f"authority: {rr_text(each)}" for each in found.authority]
    records += [f"additional: {rr_text(each)}" for each in found.additional]
    errors = [f"error: {found.error}"] if found.error is not None else []
    return "; ".join(
        [" ".join(words), *(each.replace(" IN ", " ", 1) for each in records), *errors]
    )


def make_reply(text: str, qname: str, holds: Callable[[], bool]) -> Reply:
    """The reply of a text in the form of reply_text(), to a question with this name."""
    head, *parts = text.split("; ")
    rcode, *words = head.split()
    named = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    found: dict[str, list[str]] = {"answer": [], "authority": [], "additional": [], "error": []}
    for part in parts:
        name, _, record = (
            part.partition(": ") if part.partition(": ")[0] in found else ("answer", "", part)
        )
        if name != "error":
            record, _, times = re.sub(r" x(\d+)$", r"\0\1", record).partition("\0")
            owner, ttl, *rest = record.split(None, 2)
            rest[0] = rest[0] if rest[0].startswith("CH ") else f"IN {rest[0]}"
            found[name] += [" ".join([qname if owner == "@" else owner, ttl, *rest])] * int(
                times or 1
            )
        else:
            found[name] = [record]
    return reply(
        found["answer"],
        found["authority"],
        found["additional"],
        rcode_from_text(rcode),
        **{each: True for each in _REPLY_FLAGS if each in named},
        written="unwritten" not in named,
        rd=True if "rd" in named else False if "norec" in named else None,
        error=found["error"][0] if found["error"] else None,
        still_holds=holds if "holds" in named else (lambda: False) if "outdated" in named else None,
        edns=_edns(named["edns"]) if "edns" in named else None,
        edns_options=_options(named["options"].split(",")) if "options" in named else None,
        extended_errors=bytes.fromhex(named.get("errors", "")),
    )


def _changed(found: Reply, words: list[str]) -> Reply:
    """A reply of the next plugin with what the words after `= below` say."""
    for word in words:
        if word.startswith("ttl="):

            def with_ttl(records: tuple[RR, ...], ttl: int = int(word[4:])) -> tuple[RR, ...]:
                return tuple(each._replace(ttl=ttl) for each in records)

            found = found.replace(
                answer=with_ttl(found.answer),
                authority=with_ttl(found.authority),
                additional=with_ttl(found.additional),
            )
        elif word == "bare":
            found = found.replace(authority=(), additional=())
        else:
            found = found.replace(**{word.removeprefix("-"): not word.startswith("-")})
    return found


class _Player:
    """The plugins of a case, with what comes before and after them; `played` are the lines so far."""

    def __init__(self, text: str, zones: list[str]) -> None:
        self.played: list[str] = []
        self.runtime = FakeRuntime()
        self.runtime.time = START
        self.runtime.resolver = lambda request: self._asked(">>", request)
        self._client, self._last, self._holds = "", BELOW, True
        self._inside: deque[str] = deque()
        found = dict.fromkeys(each.name.text for each in directives(text))
        block = make_block(zones)._replace(plugins=frozenset(found))
        self.plugins: list[Any] = [
            plugin_class(name).setup(
                [each for each in directives(text) if each.name.text == name], block
            )
            for name in found
        ]
        self.chain: Callable[[Request], Coroutine[Any, Any, Reply]] = self._below
        for plugin in reversed(self.plugins):
            plugin.find_handlers([*self.plugins, Whoami()])
            finish(plugin.start(self.runtime))
            self.chain = partial(plugin.handle, next=self.chain)
        self.modules = [sys.modules[type(plugin).__module__] for plugin in self.plugins]

    @property
    def upstreams(self) -> dict[str, Upstream]:
        """The upstreams of `forward` by their names."""
        forwards = [plugin for plugin in self.plugins if isinstance(plugin, Forward)]
        routes = [route for plugin in forwards for route in plugin.routes]
        return {str(upstream): upstream for route in routes for upstream in route.upstreams}

    async def _below(self, request: Request) -> Reply:
        self._last = self._asked(">", request)
        return self._last

    def _asked(self, mark: str, request: Request) -> Reply:
        """Play the lines of what is asked and replied; where they ask something else write down what was asked."""
        text, reply_mark = question_text(request), "<" * len(mark)
        if self._inside and self._inside[0].startswith(f"{mark} "):
            line = self._inside.popleft()
            wanted = line.partition(" ")[2].replace("same", self._client, 1)
            self.played.append(
                line if question_text(make_question(wanted)) == text else f"{mark} {text}"
            )
        elif not next(
            (each for each in self._inside if not each.startswith("after:")), ""
        ).startswith(f"{reply_mark} "):
            self.played.append(f"{mark} {text}")
        while self._inside and self._inside[0].startswith("after:"):
            self.played.append(self._inside[0])
            self._advance(self._inside.popleft())
        if self._inside and self._inside[0].startswith(f"{reply_mark} "):
            self.played.append(self._inside[0])
            return self._reply(self._inside.popleft().partition(" ")[2])
        return BELOW

    async def ask_upstream(
        self,
        upstream: Upstream,
        query: Query,
        protocol: str,
        budget: float,
        limit: int | None = None,
    ) -> Reply:
        """Ask an upstream, in place of Upstream.ask()."""
        seconds = min(upstream.settings.read_timeout, budget)
        line, reply = f"to {upstream} {protocol} {seconds:g}s", "< silence"
        self.played.append(line)
        if self._inside and self._inside[0] == line:
            self._inside.popleft()
        while self._inside and self._inside[0].startswith("after:"):
            self.played.append(self._inside[0])
            self._advance(self._inside.popleft())
        if self._inside and self._inside[0].startswith("< "):
            reply = self._inside.popleft()
            self.played.append(reply)
        if reply == "< silence":
            self.runtime.time += seconds
            raise upstream._failure(
                f"did not reply over {protocol} within {seconds:g}s", "i/o timeout"
            )
        if reply == "< refused":
            raise upstream._failure("refuses connections")
        if reply == "< wrong question":
            raise WrongQuestion("another question")
        upstream._consecutive_failures = 0
        self._last = self._reply(reply.removeprefix("< "))
        return self._last

    def _reply(self, text: str) -> Reply:
        return make_reply(text, self._client.partition(" ")[0], lambda: self._holds)

    async def sleep(self, seconds: float) -> None:
        """Write down what a plugin waits for, and let the time pass."""
        self.played.append(f"sleeps: {seconds:g}s")
        self.runtime.time += seconds
        if self._inside and self._inside[0].startswith("sleeps:"):
            self._inside.popleft()

    def _advance(self, line: str) -> None:
        seconds = float(line.removeprefix("after: ").removesuffix("s"))
        self.runtime.time += seconds
        self.runtime.wall_time += seconds

    def play(self, line: str, inside: list[str], expected: str) -> None:
        """Play a line that begins something, with the lines that belong to it and the reply that is expected."""
        mark, _, rest = line.partition(" ")
        self._inside = deque(inside)
        if mark == "beside:":
            begun, self.runtime.spawned = self.runtime.spawned, {}
            self.played.append(f"beside: {len(begun)}")
            for name, coro in begun.items():
                if name.startswith("forward: probes"):  # these would need sockets
                    coro.close()
                else:
                    finish(coro)
            return
        if mark == "metric:":
            lines = self.runtime.metrics.to_text().decode().splitlines()
            name = rest.removesuffix(" none")
            is_absent = not any(each.startswith((name + "{", name + " ")) for each in lines)
            found = is_absent if name != rest else rest in lines
            self.played += (
                [line]
                if found
                else [each for each in lines if each.startswith(re.split(r"[{ ]", name)[0])]
            )
            return
        self.played.append(line)
        if mark == "after:":
            self._advance(line)
        elif mark == "event:":
            self._holds = False
        elif mark in ("down:", "loops:"):
            upstream = self.upstreams[rest]
            upstream.loops, upstream.health.failures = mark == "loops:", 3 * (mark == "down:")
        elif mark == "stop:":
            for plugin in self.plugins:
                finish(plugin.stop())
        else:
            self._ask(rest, expected)

    def _ask(self, question: str, expected: str) -> None:
        self._client = question_text(make_question(question)) if question else self._client
        before, first = self.played[:], len(self.played)
        request = make_question(self._client, self.runtime.time)
        found: Reply = finish(self.chain(request))
        text = f"= {reply_text(found)}"
        if expected == "= passed":
            is_passed = found is self._last and self.played[first:] == [f"> {self._client}"]
            self.played = [*before, expected] if is_passed else [*self.played, text]
        elif expected == "= below":
            self.played.append(expected if found is self._last else text)
        elif expected.startswith("= below "):
            changed = reply_text(_changed(self._last, expected.split()[2:]))
            self.played.append(expected if text == f"= {changed}" else text)
        else:
            same = expected and reply_text(self._reply(expected[2:])) == text[2:]
            self.played.append(expected if same else text)


def play(case: str) -> tuple[list[str], list[str]]:
    """The lines of a case as they are played, and as they are written."""
    begin = _BEGINS.search(case)
    assert begin is not None, case
    corefile, dialogue = case[: begin.start()], case[begin.start() :].replace("\n  ", "; ")
    zones = re.search(r"(?m)^zones: (.*)\n", corefile)
    corefile = corefile.replace(zones[0] if zones else "", "").replace("FILES", str(FILES))
    written, log = [line for line in dialogue.splitlines() if line], list[str]()
    player = _Player(corefile, zones[1].split() if zones else ["."])
    handler = logging.Handler()
    handler.emit = lambda record: log.append(f"log: [{record.levelname}] {record.getMessage()}")  # type: ignore[method-assign]
    logger = logging.getLogger("hsdns.plugin")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with ExitStack() as stack:
            stack.enter_context(
                patch.object(Upstream, "ask", lambda *args: player.ask_upstream(*args))
            )
            for module in player.modules:
                if hasattr(module, "sleep"):
                    stack.enter_context(patch.object(module, "sleep", player.sleep))
            rest = deque(written)
            while rest:
                line, inside = rest.popleft(), list[str]()
                belonging = {"?": _ASKED | _TIME, "beside:": _ASKED | {"sleeps:"}}.get(
                    line.partition(" ")[0], frozenset()
                )
                while rest and rest[0].partition(" ")[0] in belonging:
                    inside.append(rest.popleft())
                expected = rest[0] if rest and rest[0].startswith("= ") else ""
                if not line.startswith(("= ", "log: ")):
                    player.play(line, inside, expected)
                    player.played += log
                    log.clear()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        for coro in player.runtime.spawned.values():
            coro.close()
    return player.played, written
