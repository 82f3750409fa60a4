"""`hsdns serve`: a DNS server for a simulated cluster, described by manifests or generated.

Path: argv -> here -> cli/launch.py.
Without -conf it serves a small built-in Corefile, and without -source the demo cluster in the package.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Final

from hsdns.assemble import Configuration
from hsdns.chain import Endpoint, Request
from hsdns.cli.coredns import WORKERS, workers_of
from hsdns.cli.flags import Flag, FlagError, parse_flags, usage
from hsdns.corefile.tree import Position, Token

DEFAULT_LISTEN: Final = "127.0.0.1"
DEFAULT_PORT: Final = 1053
FLAGS: Final = {
    "source": Flag(
        list,
        "where the cluster comes from: manifests PATH..., or synthetic KEY=VALUE... (default: the demo cluster)",
        "NAME [ARGUMENT...]",
    ),
    "conf": Flag(
        str, 'Corefile to load instead of the built-in one, "stdin" for standard input', "FILE"
    ),
    "listen": Flag(
        str, f"address to listen on, without -conf (default {DEFAULT_LISTEN})", "ADDRESS"
    ),
    "dns.port": Flag(
        int, f"port for keys of the Corefile that name none (default {DEFAULT_PORT})", "PORT"
    ),
    "p": Flag(int, "the same as -dns.port", "PORT", alias_of="dns.port"),
    "quiet": Flag(bool, "do not show what is served"),
    "workers": WORKERS,
    "v": Flag(bool, "show which blocks' answers are cached in the answer table, and why not"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}
COREFILE: Final = """\
. {{
    bind {listen}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        pods insecure
        ttl 30
        source manifests {demo}
    }}
    loadbalance
}}
"""
EXAMPLES: Final = (
    ("consul-server.default.svc.cluster.local.", "A"),
    ("consul-server.default.svc.cluster.local.", "SRV"),
    ("consul-server-0.consul-server.default.svc.cluster.local.", "A"),
)


def run(words: list[str]) -> int:
    """Run `hsdns serve`; return the exit status."""
    try:
        flags = parse_flags(words, FLAGS, command="hsdns serve")
        if "listen" in flags and "conf" in flags:
            raise FlagError("-listen and -conf exclude each other; write bind in the Corefile")
    except FlagError as error:
        print(error, file=sys.stderr)
        return 1
    if flags.get("h"):
        print(f"Usage: hsdns serve [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
        return 0

    from hsdns.cli import launch
    from hsdns.cli.coredns import version_text
    from hsdns.server.cpus import usable_cpus

    count = workers_of(flags) or usable_cpus()
    port = flags.get("dns.port", DEFAULT_PORT)
    assert isinstance(port, int)
    listen = str(flags.get("listen", DEFAULT_LISTEN))
    conf = flags.get("conf")
    builtin = COREFILE.format(listen=listen, demo=_quoted(str(files("hsdns") / "demo")))
    corefile = (
        launch.CorefileSource("built-in Corefile", builtin, builtin)
        if conf is None
        else launch.CorefileSource.from_flag(str(conf), builtin)
    )
    source_words = flags.get("source")
    is_demo = conf is None and source_words is None
    objects = None
    if isinstance(source_words, list):
        position = Position("command line", 1, 1)
        objects = tuple(Token(word, position) for word in source_words)

    def greet(configuration: Configuration) -> str:
        return f"{launch.fast_path_line(count)}\n{examples(configuration, is_demo=is_demo)}"

    return launch.serve(
        corefile,
        port,
        quiet=bool(flags.get("quiet")),
        banner=version_text(),
        objects=objects,
        greet=greet,
        workers=count,
        verbose=bool(flags.get("v")),
    )


def examples(configuration: Configuration, *, is_demo: bool) -> str:
    """Return the size of each cluster served and, for the demo cluster, three `dig` commands with their answers."""
    from hsdns.plugins.kubernetes import Kubernetes

    lines = []
    for plugin in configuration.plugins:
        if isinstance(plugin, Kubernetes):
            store = plugin.store
            services = store.services.values
            endpoints = sum(part.host_count for value in services.values() for part in value.slices)
            zones = " ".join(zone.to_text() for zone in plugin.zones)
            lines.append(
                f"kubernetes {zones}: {_count(len(services), 'Service')}, "
                f"{_count(endpoints, 'endpoint address', 'es')}, "
                f"{_count(len(store.namespaces), 'namespace')}"
            )
    if is_demo:
        host, port, _ = configuration.listeners[0].listen
        for qname, qtype in EXAMPLES:
            lines += ["", f"  dig @{host} -p {port} +short {qname} {qtype}"]
            lines += [f"    {text}" for text in _ask(configuration, qname, qtype)]
        lines += ["", "Several records come in any order.  Stop with Ctrl-C."]
    return "\n".join(lines)


def _ask(configuration: Configuration, qname: str, qtype: str) -> list[str]:
    """Return the answer of the demo's kubernetes block, sorted, as `dig +short` prints it."""
    from hsdns.plugins.kubernetes import Kubernetes
    from hsdns.wire.iana import type_from_text
    from hsdns.wire.message import Query, Reply, unwritten
    from hsdns.wire.name import Name
    from hsdns.wire.text import rdata_to_text

    plugin = next(plugin for plugin in configuration.plugins if isinstance(plugin, Kubernetes))
    no_endpoint = Endpoint("", 0)
    query = Query.ask(Name.from_text(qname), type_from_text(qtype))
    request = Request(query, no_endpoint, no_endpoint, "tcp", "", plugin.zones[0], 0.0)

    async def end(_: Request) -> Reply:
        return unwritten(2)

    coroutine = plugin.handle(request, end)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        reply: Reply = stop.value
        return sorted(rdata_to_text(record.rrtype, record.rdata) for record in reply.answer)
    coroutine.close()
    return []


def _count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '\\"') + '"'
