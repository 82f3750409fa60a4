"""`hsdns names`: every name that a cluster's zones answer, with its records.

Path: argv -> here -> assemble(), the kubernetes plugins' sources -> cluster/answer_set.py -> standard output.
Rule 1: opens no port and writes no file; a snapshot is read, but not saved.
Rule 2: names are written as they are found, so a large cluster needs no more memory than to serve it.
Rule 3: standard output has the names only; what is wrong with a source goes to standard error, and makes the status 1.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hsdns.assemble import Configuration
from hsdns.cli import builtin
from hsdns.cli.flags import Flag, FlagError, parse_flags, usage
from hsdns.cli.source_flag import check_sources, source_tokens
from hsdns.cluster.answer_set import RRset
from hsdns.cluster.freshness import NoCounters
from hsdns.corefile.tree import CorefileError
from hsdns.metrics import Registry
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.runtime import ServerRuntime
from hsdns.wire.iana import type_to_text
from hsdns.wire.name import Name
from hsdns.wire.text import rdata_to_text

WAIT: Final = 10.0  # seconds for the cluster
PORT: Final = 53  # of server blocks that specify none; nothing listens
DENIED: Final = "the server denies access (403)"  # apiserver/reflector.py
FORMATS: Final = ("text", "json")
FLAGS: Final = {
    "source": builtin.SOURCE,
    "conf": builtin.CONF._replace(
        help='Corefile whose kubernetes blocks are listed, "stdin" for standard input'
    ),
    "o": Flag(str, "format: text, as in a zone file (default), or json", "FORMAT"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns names`; return the exit status."""
    try:
        flags = parse_flags(words, FLAGS, command="hsdns names")
        output = str(flags.get("o", "text"))
        if output not in FORMATS:
            raise FlagError(f'-o needs {" or ".join(FORMATS)}, found "{output}"')
        conf, words_of_source = flags.get("conf"), flags.get("source")
        is_help = bool(flags.get("h"))
        objects = None
        if isinstance(words_of_source, list) and not is_help:
            objects = source_tokens(words_of_source, conf if isinstance(conf, str) else None)
    except FlagError as error:
        print(error, file=sys.stderr)
        return 1
    if is_help:
        print(f"Usage: hsdns names [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
        return 0

    from hsdns.cli import launch

    problems = Problems()
    log = logging.getLogger("hsdns")
    log.handlers, log.propagate = [problems], False
    log.setLevel(logging.WARNING)
    try:
        default = builtin.corefile(builtin.LOOPBACK[:1])
        corefile = builtin.corefile_source(conf, default).load()
        configuration = launch.build(corefile, PORT, warn=log.warning, objects=objects)
        check_sources(configuration)
        blocks = [each for each in configuration.plugins if isinstance(each, Kubernetes)]
        if not blocks:
            raise NoNames(
                f"{configuration.corefile.path}: there is no kubernetes block, so there are no names to list"
            )
        asyncio.run(_list(configuration, blocks, _write_json if output == "json" else _write_text))
    except (CorefileError, FileNotFoundError, NoNames) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if problems.errors else 0


class NoNames(Exception):
    """Why there is nothing to list, as a sentence for the operator."""


class Problems(logging.Handler):
    """Writes what plugins log to standard error, and counts the errors."""

    def __init__(self) -> None:
        super().__init__()
        self.errors = 0
        self.sentences: list[str] = []

    @property
    def is_denied(self) -> bool:
        """Whether an API server has denied access, which waiting does not change."""
        return any(DENIED in sentence for sentence in self.sentences)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.errors += record.levelno >= logging.ERROR
        self.sentences.append(record.getMessage())
        print(self.sentences[-1], file=sys.stderr)


async def _list(
    configuration: Configuration,
    blocks: Sequence[Kubernetes],
    write: Callable[[Iterator[tuple[Kubernetes, Name, RRset]]], None],
) -> None:
    """Read the clusters, then write their names; raise NoNames."""
    runtime = ServerRuntime(
        Registry(),
        NoCounters(),
        reload_if_changed=lambda: asyncio.sleep(0),
        fail=logging.getLogger("hsdns").critical,
    )
    runtime.configuration = configuration
    try:
        for block in blocks:
            block.watch.reads_only = True
            await block.start(runtime)
        await runtime.wait_until(lambda: all(each.store.synced for each in blocks), WAIT)
        for block in blocks:
            if not block.store.serves:
                raise NoNames(
                    f"the cluster could not be read within {WAIT:g} seconds, from {block.source}"
                )
            if remark := block.remark():
                print(remark, file=sys.stderr)
        write(_rrsets(blocks))
    finally:
        for block in blocks:
            await block.stop()
        await runtime.tasks.cancel()


def _rrsets(blocks: Sequence[Kubernetes]) -> Iterator[tuple[Kubernetes, Name, RRset]]:
    for block in blocks:
        answer_set = block.answer_set()
        for zone in block.zones:
            for rrset in answer_set.of_zone(zone):
                yield block, zone, rrset


def _write_text(found: Iterator[tuple[Kubernetes, Name, RRset]]) -> None:
    """A line for each record, as in a zone file; comments begin with a semicolon."""
    sentences: dict[str, None] = {}
    for block, _, rrset in found:
        sentences.update(dict.fromkeys(block.answer_set().open_ended()))
        for owner, rrtype, ttl, rdata, _ in rrset:
            print(
                f"{owner.to_text()} {ttl} IN {type_to_text(rrtype)} {rdata_to_text(rrtype, rdata)}"
            )
    for sentence in sentences:
        print(f"; {sentence}")


def _write_json(found: Iterator[tuple[Kubernetes, Name, RRset]]) -> None:
    """An array with an object for each RRset, each on a line of its own."""
    end = "[\n"
    for _, zone, rrset in found:
        owner, rrtype, ttl, _, _ = rrset[0]
        text = {
            "name": owner.to_text(),
            "type": type_to_text(rrtype),
            "ttl": ttl,
            "records": [rdata_to_text(rrtype, record.rdata) for record in rrset],
            "zone": zone.to_text(),
        }
        print(end + json.dumps(text), end="")
        end = ",\n"
    print("\n]")
