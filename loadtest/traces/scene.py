"""One scenario with one program: its namespaces, its files in /etc, the server, and what came of it.

Path: `python -m loadtest.traces` -> play(), in a process for each scenario -> server.py and the program.
Rule 1: a program says "begin" before each lookup, waits for a line, and then says "ok VALUE..." or "error TEXT"; it is
        started with the kind, the name, the number of lookups, and the seconds between them.
Rule 2: what a program has not finished after LONGEST is "still waiting".
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import shlex
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from hsdns.testing.pod_process import SIOCSIFADDR, Refused, enter
from loadtest.process import BenchmarkError
from loadtest.traces.server import Logged, Script, Server

HERE: Final = Path(__file__).parent
NAMESERVERS: Final = ("10.96.0.10", "127.0.0.3")  # the second is local in every network namespace
ADDRESS_V6: Final = (
    "2001:db8:1::1"  # as a pod has one, so that AI_ADDRCONFIG asks for both families
)
FILES: Final = {
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
SEARCH: Final = "search shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
KINDS: Final = dict.fromkeys(
    ("search", "again", "registry", "passed", "gone"), "host"
)  # as a program is told
LONGEST: Final = 65.0  # seconds
GONE_LONGEST: Final = 180.0  # seconds, of lookups in a row
CHANGE_AT: Final = 0.1  # seconds, as `old0.1` and `new0.1` in scenarios.txt
SHOWN: Final = 2  # values of a result that are written out
LATE: Final = 0.05  # seconds in which the last packets of a lookup arrive
NICE: Final = -15  # where it is allowed, so that a program is not late on a busy machine


class Scenario(NamedTuple):
    """A row of scenarios.txt."""

    name: str
    kind: str
    conf: tuple[str, ...]
    asked: tuple[str, ...]  # what is looked up, how often, and the seconds between
    rules: str

    @property
    def resolv_conf(self) -> str:
        """The file."""
        own = ("kube", "two", "v4", "-")
        options = [f"options {word}\n" for word in self.conf if word not in own]
        servers = NAMESERVERS if "two" in self.conf else NAMESERVERS[:1]
        search = SEARCH if "kube" in self.conf else ""
        return search + "".join(options + [f"nameserver {each}\n" for each in servers])


class Row(NamedTuple):
    """A row of programs.txt: a program as it is used."""

    name: str
    model: str
    kinds: tuple[str, ...]
    version: str  # the command that prints it
    command: str
    needs: str  # how to install what it is made of


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table of this folder."""
    lines = (HERE / table).read_text().splitlines()
    return [
        [cell.strip() for cell in line.split(" ; ")] for line in lines if line and line[0] != "#"
    ]


def scenarios() -> dict[str, Scenario]:
    """All of them, by name."""
    found = {}
    for name, kind, conf, asked, rules in rows_of("scenarios.txt"):
        what, _, often = asked.partition(" ")
        times, _, pause = often.partition("x")
        found[name] = Scenario(
            name, kind, tuple(conf.split()), (what, times or "1", pause or "0"), rules
        )
    return found


def programs() -> dict[str, Row]:
    """All of them, by name."""
    cells = rows_of("programs.txt")
    return {
        name: Row(name, model, tuple(kinds.split()), *rest) for name, model, kinds, *rest in cells
    }


def placed(text: str, built: str) -> str:
    """A cell with its places: {built} is the folder of what was installed for it, {here} that of the sources."""
    return text.format(built=built, here=HERE / "programs")


class Ended(NamedTuple):
    """A lookup: when it began and ended, and its result."""

    began: float
    ended: float
    result: str
    is_found: bool = False


def result_of(line: str) -> str:
    """The result as it stands in a trace."""
    word, _, text = line.partition(" ")
    if word != "ok":
        return text or "error"
    values = text.split("\t") if "\t" in text else text.split()
    if len(values) <= SHOWN:
        return " ".join(values) or "nothing"
    v6 = sum(":" in each and each.count(":") > 1 for each in values)
    return f"{len(values) - v6}+{v6}" if values[0][0].isdigit() else f"{len(values)} values"


def run(words: list[str], longest: float) -> list[Ended]:
    """Run a program to its end."""
    ended: list[Ended] = []
    began: float | None = None
    unfinished = "still waiting"
    limit = time.monotonic() + longest
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, start_new_session=True
    ) as process, selectors.DefaultSelector() as selector:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        os.set_blocking(process.stdout.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ)
        rest = b""
        while selector.select(max(0.0, limit - time.monotonic())):
            data, now = os.read(process.stdout.fileno(), 1 << 16), time.monotonic()
            if not data:
                unfinished = "it ended"
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line == b"begin":
                    began = now
                    with contextlib.suppress(BrokenPipeError):
                        os.write(process.stdin.fileno(), b"\n")
                elif began is not None:
                    text = line.decode()
                    ended.append(Ended(began, now, result_of(text), text.startswith("ok")))
                    began = None
        if began is not None:
            ended.append(Ended(began, time.monotonic(), unfinished))
        time.sleep(LATE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return ended


def written(title: str, log: list[Logged], ended: list[Ended]) -> str:
    """A trace as text; a lookup begins with its first packet."""
    start = log[0].at if log else ended[0].began if ended else 0.0
    lines = [f"== {title}"]
    for each in ended:
        began = next((sent.at for sent in log if each.began <= sent.at <= each.ended), each.began)
        at = f"at {round((began - start) * 1000)} " if len(ended) > 1 else ""
        lines.append(f"RESULT {at}after {round((each.ended - began) * 1000)} ms: {each.result}")
    ports: dict[object, str] = {}
    qids: dict[int, int] = {}
    counts = {"udp": 0, "tcp": 0}
    name = ""
    for packet in log:
        port = (packet.transport, packet.port)
        if port not in ports:
            counts[packet.transport] += 1
            ports[port] = f"{packet.transport[0]}{counts[packet.transport]}"
        qid = qids.setdefault(packet.qid, len(qids) + 1)
        rrtype, _, asked = packet.question.partition(" ")
        ms = round((packet.at - start) * 1000)
        lines.append(
            f"{ms} {packet.transport} {packet.server} {ports[port]} {qid} {rrtype} "
            f"{'=' if asked == name else asked} {packet.flags} {packet.action}"
        )
        name = asked
    return "\n".join(lines)


def kept(title: str, log: list[Logged], ended: list[Ended]) -> str:
    """How long the state before a change was used after it, as text; lookups and queries are those after it."""
    change = log[0].at + CHANGE_AT
    old = ended[0]
    used = [
        each.ended - change
        for each in ended
        if (each.result == old.result if old.is_found else not each.is_found)
    ]
    lookups = sum(each.began > change for each in ended)
    queries = sum(each.at > change for each in log)
    last = " (to the end)" if len(used) == len(ended) else ""
    last = " (it ended)" if len(ended) == 1 else last
    return f"== {title}\nRESULT {old.result} for {max(0.0, used[-1]):.1f} s{last}; {lookups} lookups, {queries} queries"


def play(row: Row, scenario: Scenario, built: str) -> str:
    """Enter the namespaces, and run the program; return the trace."""
    with contextlib.suppress(PermissionError):
        os.nice(NICE)
    with tempfile.TemporaryDirectory(prefix="traces-") as folder:
        for name, text in {**FILES, "resolv.conf": scenario.resolv_conf}.items():
            (Path(folder) / name).write_text(text)
        try:
            pairs = [enter(folder, NAMESERVERS[0])]
        except Refused as refused:
            raise BenchmarkError(str(refused)) from None
        if "v4" not in scenario.conf:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
                packed = socket.inet_pton(socket.AF_INET6, ADDRESS_V6)
                packed += struct.pack("Ii", 128, socket.if_nametoindex("lo"))
                fcntl.ioctl(sock, SIOCSIFADDR, packed)
        if "two" in scenario.conf:
            udp, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
            for each in (udp, tcp):
                each.bind((NAMESERVERS[1], 53))
            tcp.listen()
            pairs.append((udp, tcp))
        server = Server(Script(scenario.rules), pairs)
        server.start()
        words = [
            *shlex.split(placed(row.command, built)),
            KINDS.get(scenario.kind, scenario.kind),
            *scenario.asked,
        ]
        ended = run(words, GONE_LONGEST if scenario.kind == "gone" else LONGEST)
        told = kept if scenario.kind == "gone" else written
        return told(f"{scenario.name} {row.name}", sorted(server.log), ended)
