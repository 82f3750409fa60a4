"""`hsdns resolve NAME`: a whole lookup as a program's own resolver does it, query by query.

Path: argv -> here -> resolver/, with answers of cli/resolve_chain.py or cli/resolve_server.py -> standard output.
Rule 1: exit status 0: it resolves; 1: it does not, in at least one of the resolvers shown; 2: that could not be told.
Rule 2: against a Corefile the waits are those of a virtual clock; against a server they are real.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from random import Random
from typing import Final

from hsdns.cli import builtin
from hsdns.cli.flags import Flag, FlagError, leading_words, output_format, parse_flags, usage
from hsdns.cli.resolve_text import Lookup, as_json, as_list, as_table
from hsdns.cli.source_flag import source_objects
from hsdns.corefile.tree import CorefileError, did_you_mean
from hsdns.resolver import MODELS, USUAL
from hsdns.resolver.model import Model, Step, steps
from hsdns.resolver.pod import pod_resolv_conf
from hsdns.wire.iana import RRType, type_from_text, type_to_text
from hsdns.wire.name import Name

RESOLV_CONF: Final = "/etc/resolv.conf"
PORT: Final = 53
TYPES: Final = (RRType.A, RRType.AAAA)
FLAGS: Final = {
    "resolver": Flag(str, f"{', '.join(MODELS)} (default: {', '.join(USUAL)}, side by side)", "NAME"),
    "search": Flag(str, "search domains in place of those of resolv.conf", "DOMAIN,..."),
    "ndots": Flag(int, "ndots in place of that of resolv.conf", "N", what="number", high=15),
    "resolv-conf": Flag(str, f"resolv.conf to use (default {RESOLV_CONF}); with -from, that of the node", "FILE"),
    "from": Flag(str, "pod of the source manifests, whose resolv.conf is used as the kubelet writes it", "NS/POD"),
    "server": Flag(str, "server to ask, with real waits, in place of a Corefile", "ADDRESS"),
    "p": Flag(int, "port of -server (default 53)", "PORT", low=1),
    "source": builtin.SOURCE,
    "conf": builtin.CONF,
    "forward": Flag(list, "servers for names outside the cluster, without -conf (default: REFUSED)", "ADDRESS..."),
    "o": Flag(str, "format: text (default) or json", "FORMAT"),
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
            print(f"Usage: hsdns resolve NAME [TYPE] [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
            return 0
        return _run(plain, flags)
    except (FlagError, CorefileError, OSError, CannotTell) as error:
        print(error, file=sys.stderr)
        return 2


def _run(plain: list[str], flags: dict[str, str | int | bool | list[str]]) -> int:
    name, types = _question(plain)
    chosen = str(flags.get("resolver", ""))
    if chosen and chosen not in MODELS:
        hint = did_you_mean(chosen, MODELS) or f"; there are {', '.join(MODELS)}"
        raise FlagError(f'there is no model of a resolver "{chosen}"{hint}')
    output = output_format(flags)
    names = [chosen] if chosen else list(USUAL)

    if server := str(flags.get("server", "")):
        for flag in ("source", "conf", "forward", "from"):
            if flag in flags:
                raise FlagError(
                    f"-server asks a running server, so -{flag} has no effect; leave one of them out"
                )
        text = _overridden(_read(str(flags.get("resolv-conf", RESOLV_CONF))), flags)
        lookups = list(_ask_server(names, name, types, server, int(str(flags.get("p", PORT))), text))  # fmt: skip
        if not any(each.has_reply for each in lookups):
            print(f"no reply from {server}, so its answers are not known", file=sys.stderr)
            return 2
    else:
        if "p" in flags:
            raise FlagError("-p is the port of -server; add -server ADDRESS, or leave -p out")
        text, lookups = _ask_chain(names, name, types, flags)
    if output == "json":
        print(json.dumps(as_json(name, types, text, lookups), indent=2))
    elif chosen:
        print("\n".join(as_list(name, lookups[0])))
    else:
        print("\n".join(as_table(name, lookups)))
    return 0 if all(not each.end.result.error for each in lookups) else 1


def _question(plain: list[str]) -> tuple[str, tuple[int, ...]]:
    """The name and the types to look up; raise FlagError."""
    if len(plain) not in (1, 2):
        raise FlagError(
            "hsdns resolve needs a name, and may have a type: hsdns resolve NAME [TYPE]"
        )
    try:
        if not Name.from_text(plain[0]).labels:
            raise ValueError("it is the root")
        plain[0].encode("ascii")
    except ValueError as error:
        raise FlagError(f'"{plain[0]}" is not a name that can be looked up: {error}') from None
    if len(plain) == 1:
        return plain[0], TYPES
    try:
        rrtype = type_from_text(plain[1].upper())
    except ValueError as error:
        raise FlagError(str(error)) from None
    if rrtype not in TYPES:
        raise FlagError(
            f"programs look up A and AAAA records by getaddrinfo, not {type_to_text(rrtype)}; "
            f"hsdns lookup {plain[0]} {type_to_text(rrtype)} asks a server for it"
        )
    return plain[0], (rrtype,)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise FlagError(
            f"{path} cannot be read: {error.strerror}; give a resolv.conf with -resolv-conf"
        ) from None


def _overridden(text: str, flags: dict[str, str | int | bool | list[str]]) -> str:
    """Add lines for -search and -ndots; for all resolvers, the last line counts."""
    lines = [text.rstrip("\n")]
    if "search" in flags:
        lines.append("search " + " ".join(str(flags["search"]).split(",")))
    if "ndots" in flags:
        lines.append(f"options ndots:{flags['ndots']}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _ask_chain(
    names: list[str],
    name: str,
    types: tuple[int, ...],
    flags: dict[str, str | int | bool | list[str]],
) -> tuple[str, list[Lookup]]:
    from hsdns.cli.offline import configure
    from hsdns.cli.resolve_chain import Chain
    from hsdns.cli.resolve_pod import cluster_dns, find_pod

    conf = flags.get("conf")
    forward = flags.get("forward", [])
    assert isinstance(forward, list)
    if forward and conf is not None:
        raise FlagError("-forward has no effect with -conf; write forward in the Corefile")
    builtin.check_upstreams(forward)
    objects = source_objects(flags)
    node_path = flags.get("resolv-conf")
    node = "" if "from" in flags and node_path is None else _read(str(node_path or RESOLV_CONF))
    configuration, _ = configure(conf, objects, forward)
    pod = find_pod(configuration, str(flags["from"])) if "from" in flags else None
    with Chain(configuration, pod.address if pod and pod.address else "127.0.0.1") as chain:
        if pod is None:
            text = node
        else:
            text = pod_resolv_conf(pod.dns, cluster_dns(configuration), pod.domain, node)
        text = _overridden(text, flags)

        def look_up(model: Model) -> Iterator[Step]:
            return steps(model, name, types, chain.ask)

        return text, list(_look_up(names, text, look_up))


def _ask_server(
    names: list[str], name: str, types: tuple[int, ...], server: str, port: int, text: str
) -> Iterator[Lookup]:
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
    names: list[str], text: str, look_up: Callable[[Model], Iterator[Step]]
) -> Iterator[Lookup]:
    for each in names:
        model = MODELS[each](text, Random(0))
        try:
            yield Lookup(model, list(look_up(model)))
        except ValueError as error:
            raise FlagError(f"a name of the search list cannot be looked up: {error}") from None
