"""`hsdns resolve NAME`: a complete lookup as done by a program's resolver, query by query.

Path: argv -> here -> resolver/, with answers of cli/resolve_chain.py or cli/resolve_server.py -> standard output.
Rule 1: exit status 0: it resolves; 1: it does not, in at least one of the resolvers shown; 2: unknown.
Rule 2: with a Corefile the waits are on a virtual clock; with a server they are real.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from random import Random
from typing import Final

import msgspec

from hsdns.cli import asker_flags, builtin
from hsdns.cli.flags import (
    NO_CODE,
    Flag,
    FlagError,
    leading_words,
    output_format,
    parse_flags,
    runs_code,
    usage,
)
from hsdns.cli.output import complain, say, say_text
from hsdns.cli.source_flag import source_objects
from hsdns.corefile.tree import CorefileError
from hsdns.explanation.question import QuestionError, overridden
from hsdns.resolver import MODELS
from hsdns.resolver.model import Model, Step, steps
from hsdns.resolver.pod import pod_resolv_conf
from hsdns.resolver.report import LookupReport, report_of
from hsdns.resolver.text import as_list, as_table
from hsdns.wire.iana import type_to_text

PORT: Final = 53
FLAGS: Final = {
    **asker_flags.FLAGS,
    "server": Flag(str, "server to ask, with real waits, in place of a Corefile", "ADDRESS"),
    "p": Flag(int, "port of -server (default 53)", "PORT", low=1),
    "source": builtin.SOURCE,
    "conf": builtin.CONF,
    "forward": Flag(list, "servers for names outside the cluster, without -conf (default: REFUSED)", "ADDRESS..."),
    "o": Flag(str, "format: text (default) or json", "FORMAT"),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}  # fmt: skip


def run(words: list[str]) -> int:
    """Run `hsdns resolve`; return the exit status."""
    from hsdns.cli.offline import CannotTell

    plain, rest = leading_words(words)
    try:
        flags = parse_flags(rest, FLAGS, command="hsdns resolve")
        if flags.get("h"):
            say_text(f"Usage: hsdns resolve NAME [TYPE] [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
            return 0
        return _run(plain, flags)
    except (FlagError, QuestionError, CorefileError, OSError, CannotTell) as error:
        complain(error)
        return 2


def _run(plain: list[str], flags: dict[str, str | int | bool | list[str]]) -> int:
    name, types = asker_flags.name_and_types(plain, "resolve")
    names = asker_flags.resolvers(flags)
    output = output_format(flags)

    if server := str(flags.get("server", "")):
        for flag in ("source", "conf", "forward", "from", "cluster-dns"):
            if flag in flags:
                raise FlagError(
                    f"-server asks a running server, so -{flag} has no effect; leave one of them out"
                )
        text = _overridden(asker_flags.resolv_conf(flags), flags)
        lookups = list(_ask_server(names, name, types, server, int(str(flags.get("p", PORT))), text))  # fmt: skip
        if not any(each.has_reply for each in lookups):
            complain(f"no reply from {server}, so its answers are not known")
            return 2
    else:
        if "p" in flags:
            raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
        text, lookups = _ask_chain(names, name, types, flags)
    if output == "json":
        found = {
            "name": name,
            "types": [type_to_text(each) for each in types],
            "resolv_conf": text,
            "resolvers": msgspec.to_builtins(lookups),
        }
        say_text(json.dumps(found, indent=2))
    elif len(lookups) == 1:
        say(*as_list(name, lookups[0]))
    else:
        say(*as_table(name, lookups))
    return 0 if all(not each.error for each in lookups) else 1


def _ask_chain(
    names: Sequence[str],
    name: str,
    types: tuple[int, ...],
    flags: dict[str, str | int | bool | list[str]],
) -> tuple[str, list[LookupReport]]:
    from hsdns.cli.offline import configure
    from hsdns.cli.resolve_chain import Chain

    conf = flags.get("conf")
    forward = flags.get("forward", [])
    assert isinstance(forward, list)
    if forward and conf is not None:
        raise FlagError("-forward has no effect with -conf; write forward in the Corefile")
    builtin.check_upstreams(forward)
    objects = source_objects(flags)
    node = asker_flags.resolv_conf(flags)
    configuration, _ = configure(conf, objects, forward, runs_code=runs_code(flags))
    asked = asker_flags.asking(name, types, flags)
    with Chain(configuration) as chain:
        text = node
        if asked.pod:
            pod = chain.find_pod(asked.pod, asked.cluster_dns)
            text = pod_resolv_conf(pod.dns, pod.server, pod.domain, node)
        text = _overridden(text, flags)

        def look_up(model: Model) -> Iterator[Step]:
            return steps(model, name, types, chain.ask)

        return text, list(_look_up(names, text, look_up))


def _overridden(text: str, flags: Mapping[str, object]) -> str:
    return overridden(text, str(flags.get("search", "")), str(flags.get("ndots", "")))


def _ask_server(
    names: Sequence[str], name: str, types: tuple[int, ...], server: str, port: int, text: str
) -> Iterator[LookupReport]:
    from hsdns.cli.resolve_server import server_steps

    try:
        ip_address(server)
    except ValueError:
        raise FlagError(f'-server needs an IP address, found "{server}"') from None
    lines = [line for line in text.splitlines() if line.split()[:1] != ["nameserver"]]
    text = "\n".join([*lines, f"nameserver {server}"])
    random = Random()
    return _look_up(
        names, text, lambda model: server_steps(model, name, types, (server, port), random)
    )


def _look_up(
    names: Sequence[str], text: str, look_up: Callable[[Model], Iterator[Step]]
) -> Iterator[LookupReport]:
    for each in names:
        model = MODELS[each](text, Random(0))
        try:
            yield report_of(model, look_up(model))
        except ValueError as error:
            raise FlagError(f"a name of the search list cannot be looked up: {error}") from None
