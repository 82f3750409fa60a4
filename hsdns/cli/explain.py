"""`hsdns explain NAME [TYPE]`: why a name has the answer that it has, or none.

Path: argv -> here -> assemble(), the plugins of the Corefile -> explanation/explain.py -> standard output.
Rule 1: opens no port, asks no other server and writes no file; a snapshot is read, but not saved.
Rule 2: the exit status is 0 for a name that resolves, 1 for one that does not, 2 where that could not be told.
Rule 3: standard output has the explanation only; what is wrong with a source goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from hsdns.cli import asker_flags, builtin
from hsdns.cli.flags import Flag, FlagError, leading_words, output_format, parse_flags, usage
from hsdns.cli.source_flag import source_objects
from hsdns.corefile.tree import CorefileError
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.cli.offline import Problems
    from hsdns.explanation.report import Explanation

UNKNOWN: Final = 2  # the exit status where the answer could not be told, also for bad input
STATUSES: Final = {"resolves": 0, "does not resolve": 1, "could not tell": UNKNOWN}
# What runs beside the queries, or asks other servers: not started.
NOT_STARTED: Final = frozenset(
    {"cancel", "errors", "forward", "health", "log", "loop", "pprof", "prometheus", "ready", "reload", "secondary"}
)  # fmt: skip
FLAGS: Final = {
    "source": builtin.SOURCE,
    "conf": builtin.CONF._replace(
        help='Corefile whose server blocks answer, "stdin" for standard input'
    ),
    **asker_flags.FLAGS,
    "o": Flag(str, "format: text, a tree for a terminal (default), or json", "FORMAT"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns explain`; return the exit status."""
    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns explain")
        if flags.get("h"):
            print(f"Usage: hsdns explain NAME [TYPE] [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
            return 0
        output = output_format(flags)
        asks = None
        if asker_flags.are_in(flags):
            name, types = asker_flags.name_and_types(plain, "explain")
            asks = asker_flags.Asks(name, types, asker_flags.resolvers(flags), flags)
            plain = [name]
        qname, qtype = read_question(plain)
        objects = source_objects(flags)
    except FlagError as error:
        print(error, file=sys.stderr)
        return UNKNOWN

    from hsdns.cli.offline import configure

    try:
        configuration, problems = configure(flags.get("conf"), objects)
        found = asyncio.run(_explain(configuration, qname, qtype, problems, asks))
    except (CorefileError, OSError, FlagError) as error:
        print(error, file=sys.stderr)
        return UNKNOWN
    if output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        from hsdns.explanation.text import lines

        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        for line in lines(found, colour=colour):
            print(line)
    if problems.errors and found.outcome != "resolves":
        return UNKNOWN  # what could not be read may be what is missing
    return STATUSES[found.outcome]


def read_question(plain: list[str]) -> tuple[Name, int]:
    """The name and the type of the words; an IP address is looked up in reverse.  Raise FlagError."""
    from hsdns.cluster.reverse import reverse_name

    if len(plain) not in (1, 2):
        raise FlagError(
            "hsdns explain needs a name, and may have a type: hsdns explain NAME [TYPE]"
        )
    qtype = "".join(plain[1:]).upper()
    try:
        address = ip_address(plain[0])
    except ValueError:
        try:
            qname = Name.from_text(plain[0])
        except ValueError as error:
            raise FlagError(f'"{plain[0]}" is not a domain name: {error}') from None
    else:
        qname, qtype = reverse_name(address.packed), qtype or "PTR"
    try:
        return qname, type_from_text(qtype or "A")
    except ValueError:
        raise FlagError(f'"{qtype}" is not a record type; try A, AAAA, SRV, PTR or CNAME') from None


async def _explain(
    configuration: Configuration,
    qname: Name,
    qtype: int,
    problems: Problems,
    asks: asker_flags.Asks | None = None,
) -> Explanation:
    from hsdns.cli.offline import WAIT, kubernetes_blocks, make_runtime
    from hsdns.explanation.explain import Explainer
    from hsdns.explanation.scene import ClusterObjects

    runtime = make_runtime(configuration)
    blocks = kubernetes_blocks(configuration)
    by_watch: dict[int, ClusterObjects] = {}
    kept: dict[int, ClusterObjects] = {}
    for block in blocks:
        objects = by_watch.setdefault(id(block.watch), ClusterObjects())
        block.watch.on_events = objects.apply
        kept[id(block)] = objects
    explainer = Explainer(configuration, kept, runtime.queries.spawn)
    runtime.processors = explainer.processors
    plugins = [each for each in configuration.plugins if each.name not in NOT_STARTED]
    started = []
    try:
        for plugin in plugins:
            started.append(plugin)
            await plugin.start(runtime)
        await runtime.wait_until(
            lambda: problems.is_denied or all(each.store.synced for each in blocks), WAIT
        )
        for block in blocks:
            if block.store.restored is not None:
                kept[id(block)].restore(block.store)
        if asks is not None:
            return await asks.explain(explainer, configuration, runtime.clock(), problems.sentences)
        return await explainer.explain(qname, qtype, runtime.clock(), problems.sentences)
    finally:
        for plugin in started:
            await plugin.stop()
        await runtime.queries.cancel()
        await runtime.tasks.cancel()
