"""Dialogues with plugins, in the form in which tests/plugins/dialogues writes them.

Path: tests/plugins/test_dialogues.py reads the files with cases() and plays each case with play().

A case begins with lines of a Corefile, in which FILES is a folder of files for all cases; a line `zones: ...` before
them has the zones of the block.  Then follow:

    ? www.example.org. A tcp      a query from a client
    > same                        what the plugins ask the next plugin; `same` is the client's question
    < NOERROR | RECORD | ...      what the next plugin replies; without this line it is BELOW
    >> b.example.org. A           what they resolve through the whole server, `<<` is the reply
    = NOERROR aa | RECORD         the reply; `below` is the next plugin's, and `passed` stands for `> same` and `= below`
    log: [INFO] plugin/log: ...   a line of the log
    after: 10s                    time that passes, also between > and <
    sleeps: 0.5s                  what a plugin waits for; the time passes
    event: ...                    replies that hold as long as the cluster does not know a name hold no more
    beside: 1                     the tasks that plugins have begun run now, with lines > and <; how many there were
    metric: NAME{...} 1.0         a line of the metrics

Rule 1: what is not written does not happen: a query without `>` reaches no other plugin.
Rule 2: a question is `NAME TYPE [WORD]...`, see question_text(); a reply `RCODE [WORD]... [| RECORD]...`, see
        reply_text().  A record of another section begins with `authority:` or `additional:`.
Rule 3: a line that begins with `  |` continues the one before it; cases are separated by empty lines.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hsdns.assemble import plugin_class
from hsdns.chain import Request
from hsdns.plugins.whoami import Whoami
from hsdns.wire.edns import Edns
from hsdns.wire.iana import class_to_text, rcode_from_text, rcode_to_text, type_to_text
from hsdns.wire.message import AA, AD, CD, RA, RD, Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, reply, rr_text
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block

MARKS = ("? ", "after: ", "event: ", "beside: ", "metric: ")
FOLLOWING = ("> ", "< ", ">> ", "<< ", "after: ", "sleeps: ")
START = 1000.0  # seconds on the clock
FILES = Path(__file__).parents[2] / "plugins" / "dialogues" / "files"
BELOW = reply(["below. 1 IN A 192.0.2.1"])
_NOTIFY = 4 << 11
_QUERY_FLAGS = {"ad": AD, "cd": CD, "aa": AA, "ra": RA, "notify": _NOTIFY}


def _option(code: int, data: bytes) -> str:
    return f"{code}:{data.hex()}"


def _edns_text(edns: Edns) -> str:
    words = [str(edns.payload_size), *["do"] * edns.do, *(_option(*each) for each in edns.options)]
    return "edns=" + ",".join(words)


def _edns(text: str) -> Edns:
    size, *words = text.split(",")
    return Edns(
        int(size), do="do" in words, options=_options(each for each in words if each != "do")
    )


def _options(words: Iterable[str]) -> tuple[tuple[int, bytes], ...]:
    pairs = (word.partition(":") for word in words if word)
    return tuple((int(code), bytes.fromhex(data)) for code, _, data in pairs)


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


def make_question(text: str, now: float) -> Request:
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
    words += [each for each in ("aa", "ra", "ad", "tc", "fresh", "dropped") if getattr(found, each)]
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
    return " | ".join([" ".join(words), *records, *errors])


def make_reply(text: str, holds: Callable[[], bool]) -> Reply:
    """The reply of a text in the form of reply_text()."""
    head, *parts = text.split(" | ")
    rcode, *words = head.split()
    named = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    sections: dict[str, list[str]] = {"answer": [], "authority": [], "additional": [], "error": []}
    for part in parts:
        section, colon, record = part.partition(": ")
        sections[section if colon and section in sections else "answer"].append(
            record if colon and section in sections else part
        )
    found = reply(
        sections["answer"], sections["authority"], sections["additional"], rcode_from_text(rcode)
    )
    return found.replace(
        **{each: True for each in ("aa", "ra", "ad", "tc", "fresh", "dropped") if each in named},
        written="unwritten" not in named,
        rd=True if "rd" in named else False if "norec" in named else None,
        error=sections["error"][0] if sections["error"] else None,
        still_holds=holds if "holds" in named else (lambda: False) if "outdated" in named else None,
        edns=_edns(named["edns"]) if "edns" in named else None,
        edns_options=_options(named["options"].split(",")) if "options" in named else None,
        extended_errors=bytes.fromhex(named.get("errors", "")),
    )


def cases(path: Path) -> list[str]:
    """The cases of a file, each with its comments."""
    return path.read_text().strip().split("\n\n")


class _Log(logging.Handler):
    """Collects the lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line."""
        self.lines.append(f"log: [{record.levelname}] {record.getMessage()}")


class _Player:
    """The plugins of a case, with what comes before and after them; `played` are the lines so far."""

    def __init__(self, text: str, zones: list[str]) -> None:
        self.played: list[str] = []
        self.runtime = FakeRuntime()
        self.runtime.time = START
        self.runtime.resolver = lambda request: self._asked(">>", request)
        self._client, self._last, self._holds = "", BELOW, True
        self._replies: dict[str, deque[list[str]]] = {}
        found = dict.fromkeys(each.name.text for each in directives(text))
        block = make_block(zones)._replace(plugins=frozenset(found))
        plugins: list[Any] = [
            plugin_class(name).setup(
                [each for each in directives(text) if each.name.text == name], block
            )
            for name in found
        ]
        self.chain: Callable[[Request], Coroutine[Any, Any, Reply]] = self._below
        for plugin in reversed(plugins):
            plugin.find_handlers([*plugins, Whoami()])
            finish(plugin.start(self.runtime))
            self.chain = partial(plugin.handle, next=self.chain)
        self.modules = [sys.modules[type(plugin).__module__] for plugin in plugins]

    async def _below(self, request: Request) -> Reply:
        self._last = self._asked(">", request)
        return self._last

    def _asked(self, mark: str, request: Request) -> Reply:
        text = question_text(request)
        self.played.append(f"{mark} {'same' if text == self._client else text}")
        found = BELOW
        for line in self._replies[mark].popleft() if self._replies[mark] else ():
            self.played.append(line)
            if line.startswith("<"):
                found = make_reply(line.partition(" ")[2], lambda: self._holds)
            else:
                self._advance(line)
        return found

    async def sleep(self, seconds: float) -> None:
        """Write down what a plugin waits for, and let the time pass."""
        self.played.append(f"sleeps: {seconds:g}s")
        self.runtime.time += seconds

    def _advance(self, line: str) -> None:
        self.runtime.time += float(line.removeprefix("after: ").removesuffix("s"))

    def play(self, line: str, following: list[str]) -> None:
        """Play a line that stands at the begin of something; `following` are those that belong to it."""
        mark, _, rest = line.partition(" ")
        self._replies = {">": deque(), ">>": deque()}
        reply_lines: list[str] = []
        for each in following:
            begins = each.partition(" ")[0]
            if begins in self._replies:
                self._replies[begins].append(reply_lines := [])
            elif begins in ("<", "<<", "after:"):
                reply_lines.append(each)
        if mark == "beside:":
            begun, self.runtime.spawned = list(self.runtime.spawned.values()), {}
            self.played.append(f"beside: {len(begun)}")
            for coro in begun:
                finish(coro)
            return
        metrics = self.runtime.metrics.to_text().decode().splitlines() if mark == "metric:" else ()
        if mark != "metric:" or rest in metrics:
            self.played.append(line)
        if mark == "after:":
            self._advance(line)
        elif mark == "event:":
            self._holds = False
        elif mark == "?":
            self._ask(rest)

    def _ask(self, question: str) -> None:
        first, self._client = len(self.played), question
        found = finish(self.chain(make_question(question, self.runtime.time)))
        self.played.append(f"= {'below' if found is self._last else reply_text(found)}")
        if self.played[first:] == ["> same", "= below"]:
            self.played[first:] = ["= passed"]


def play(case: str) -> tuple[list[str], list[str]]:
    """The lines of a case as they are played, and as they are written."""
    whole = case.replace("\n  | ", " | ").splitlines()
    lines = [line for line in whole if not line.startswith(("# ", "zones: "))]
    zones = [word for line in whole if line.startswith("zones: ") for word in line.split()[1:]]
    first = next(at for at, line in enumerate(lines) if line.startswith(MARKS))
    written, log = lines[first:], _Log()
    player = _Player("\n".join(lines[:first]).replace("FILES", str(FILES)), zones or ["."])
    logger = logging.getLogger("hsdns.plugin")
    logger.addHandler(log)
    logger.setLevel(logging.DEBUG)
    try:
        with ExitStack() as stack:
            for module in player.modules:
                if hasattr(module, "sleep"):
                    stack.enter_context(patch.object(module, "sleep", player.sleep))
            rest = deque(written)
            while rest:
                line, following = rest.popleft(), []
                while (
                    rest and line.startswith(("? ", "beside: ")) and rest[0].startswith(FOLLOWING)
                ):
                    following.append(rest.popleft())
                if not line.startswith(("= ", "log: ")):
                    player.play(line, following)
                    player.played += log.lines
                    log.lines.clear()
    finally:
        logger.removeHandler(log)
        logger.setLevel(logging.NOTSET)
        for coro in player.runtime.spawned.values():
            coro.close()
    return player.played, written
