"""`hsdns names`: every name that a cluster's zones answer, with its records.

Path: argv -> here -> assemble(), the kubernetes plugins' sources -> cluster/answer_set.py -> standard output, or
running_server.py -> standard output.
Rule 1: it opens no port and writes no file; a snapshot is read, but not saved.
Rule 2: names are written as they are found, so listing a large cluster needs no more memory than serving it.
Rule 3: standard output has only the names; errors of a source go to standard error, and make the exit status 1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from hsdns.ask.names import Word, read_word
from hsdns.assemble import Configuration
from hsdns.cli import source
from hsdns.cli.command import OUTPUT, complain, flag, say
from hsdns.cli.offline import (
    CannotTell,
    configure,
    kubernetes_blocks,
    say_unread,
    started,
    wait_for_clusters,
)
from hsdns.cli.running_server import RunningServer
from hsdns.cli.source import ClusterCommand
from hsdns.cluster.answer_set import listed
from hsdns.plugins.kubernetes import Kubernetes

Line = dict[str, Any]  # an RRset, or a sentence, as in /v1/names


class Names(ClusterCommand):
    """Lists the names of a cluster, or of a running server."""

    name = "names"
    forms = "[NAME] [FLAG...]"
    most_words = 1

    namespace: str = flag(
        "",
        "list only this namespace; with NAME, the namespace of a short name",
        "NAMESPACE",
        alias="n",
    )

    conf: str | None = flag(
        None,
        source.CONF,
        help="Corefile whose kubernetes blocks are listed, or stdin; runs exec plugins of its kubeconfig",
    )
    o: str = flag("text", OUTPUT, help="format: text, as in a zone file (default), or json")

    def run(self) -> int:
        """List them."""
        from hsdns.explanation.cli import name_at

        word = read_word(self.words[0], self.namespace) if self.words else None
        place = self.found()
        if isinstance(place, RunningServer):
            name = "" if word is None else name_at(place, self.words[0], word)
            return _list_running(place, partial(self._write, name), needs_any=word is not None)
        if word is not None:
            word = word._replace(default=source.default_namespace(place))
        configuration, problems = configure(self.conf, place, runs_code=self.runs_code)
        own = self.namespace or source.default_namespace(place)
        blocks = kubernetes_blocks(configuration, (own,) if word is None else word.namespaces)
        if not blocks:
            raise CannotTell(
                f"{configuration.corefile.path}: there is no kubernetes block, so there are no names to list"
            )
        is_found = asyncio.run(self._list(configuration, blocks, word))
        is_partial = word is None and not self.namespace and any(each.unread() for each in blocks)
        is_missing = word is not None and not is_found
        return 1 if is_missing or problems.errors or is_partial else 0

    async def _list(
        self, configuration: Configuration, blocks: Sequence[Kubernetes], word: Word | None
    ) -> bool:
        """Read the clusters, then write their names; return whether there are any; raise CannotTell."""
        from hsdns.server.explaining import name_of

        async with started(configuration, blocks) as runtime:
            await wait_for_clusters(runtime, blocks, is_whole=False)
            say_unread(blocks)
            for block in blocks:
                if remark := block.remark():
                    complain(remark)
            name = "" if word is None else await name_of(runtime, word)
            return self._write(name, filter(None, listed(block.answer_set() for block in blocks)))

    def _write(self, name: str, found: Iterable[Line]) -> bool:
        """Write all, or what is about a name and those below it, or about a namespace; return whether there is any."""
        marks: tuple[str, ...] = ()
        if name:
            from hsdns.explanation.cli import say_meant
            from hsdns.explanation.question import read_question

            say_meant(self.words[0], name)
            name = read_question(name)[0].to_text().lower()
        elif self.namespace:
            marks = tuple(f".{self.namespace.lower()}.{each}." for each in ("svc", "pod"))
        if name or marks:
            found = (each for each in found if _is_about(each, name, marks))
        written = 0

        def counted() -> Iterator[Line]:
            nonlocal written
            for each in found:
                written += "name" in each
                yield each

        (_write_json if self.o == "json" else _write_text)(counted())
        return written > 0


def _is_about(line: Line, below: str, marks: Sequence[str]) -> bool:
    """Whether a line is about a name, or one below it, or has one of the marks in its name; PTR records count too."""
    owners = [line.get("name", ""), *(line["records"] if line.get("type") == "PTR" else ())]
    return any(
        each.endswith(f".{below}") if below else any(mark in each for mark in marks)
        for each in (f".{owner.lower()}" for owner in owners)
    )


def _list_running(
    server: RunningServer, write: Callable[[Iterable[Line]], bool], *, needs_any: bool
) -> int:
    """List the names of a server; raise ServerError."""
    problems: list[str] = []
    is_found = write(_without_problems(server.lines("/v1/names"), problems))
    complain(*problems)
    return 1 if problems or (needs_any and not is_found) else 0


def _without_problems(found: Iterable[Line], problems: list[str]) -> Iterator[Line]:
    for line in found:
        if "problem" in line:
            problems.append(line["problem"])
        else:
            yield line


def _write_text(found: Iterable[Line]) -> None:
    """A line for each record, as in a zone file; comments begin with a semicolon."""
    for line in found:
        if "open_ended" in line:
            say(f"; {line['open_ended']}")
            continue
        for record in line["records"]:
            remark = f" ; {line['behind']}" if "behind" in line else ""
            say(f"{line['name']} {line['ttl']} IN {line['type']} {record}{remark}")


def _write_json(found: Iterable[Line]) -> None:
    """An array with an object for each RRset, one per line."""
    held = "["
    for line in found:
        if "open_ended" not in line:
            say(held)
            held = f"{json.dumps(line)},"
    say(held.removesuffix(","), "]")
