"""`hsdns serve`: a DNS server for a simulated cluster, described by manifests or generated.

Path: argv -> here -> cli/launch.py.
Without -conf it serves a small built-in Corefile, and without -source the demo cluster in the package.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from hsdns.cli import builtin, control_path
from hsdns.cli.coredns import WORKERS, workers_of
from hsdns.cli.flags import Flag, FlagError, parse_flags, usage
from hsdns.cli.output import complain, say, say_text
from hsdns.cli.source_flag import check_sources, recorded_header, source_objects
from hsdns.corefile.tree import CorefileError

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.cli.launch import Addresses
    from hsdns.plugin import Plugin

DEFAULT_LISTEN: Final = "127.0.0.1"
DEFAULT_PORT: Final = 1053
VARIABLE: Final = "HSDNS_LISTEN"  # the default of -listen, which the image sets to all addresses
FLAGS: Final = {
    "source": builtin.SOURCE,
    "conf": builtin.CONF,
    "listen": Flag(
        str,
        "address to listen on, without -conf: an IP address, localhost, or an interface "
        f"(default {DEFAULT_LISTEN}, or {VARIABLE} in the environment)",
        "ADDRESS",
    ),
    "forward": Flag(
        list,
        "servers for names outside the cluster, or a file such as /etc/resolv.conf, without -conf "
        "(default: such names are REFUSED)",
        "ADDRESS...",
    ),
    "log": Flag(bool, "log each query, without -conf"),
    "dns.port": Flag(
        int, f"port for keys of the Corefile that name none (default {DEFAULT_PORT})", "PORT"
    ),
    "p": Flag(int, "the same as -dns.port", "PORT", alias_of="dns.port"),
    "quiet": Flag(bool, "do not show what is served, nor what changes"),
    "workers": WORKERS,
    "control": control_path.FLAG._replace(
        help="control socket, for this user alone; or an address and port, for who has the token in "
        f"{control_path.TOKEN}; or off (default: a socket in a folder of the user)"
    ),
    "faults": Flag(
        bool, "let rules of faults come through the control door (default; -faults=false refuses)"
    ),
    "v": Flag(bool, "show which blocks' answers are cached in the answer table, and why not"),
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}
# The parts of a Corefile that correspond to flags that exclude -conf.
IN_A_COREFILE: Final = {"listen": "bind", "forward": "forward", "log": "log"}


def run(words: list[str]) -> int:
    """Run `hsdns serve`; return the exit status."""
    from hsdns.server.interfaces import interface_addresses

    try:
        flags = parse_flags(words, FLAGS, command="hsdns serve")
        for name, directive in IN_A_COREFILE.items():
            if flags.get(name) and "conf" in flags:
                raise FlagError(
                    f"-{name} and -conf exclude each other; write {directive} in the Corefile"
                )
        forward = flags.get("forward", [])
        assert isinstance(forward, list)
        builtin.check_upstreams(forward)
        listen, flag = os.environ.get(VARIABLE) or DEFAULT_LISTEN, VARIABLE
        if "listen" in flags:
            listen, flag = str(flags["listen"]), "-listen"
        is_used = "conf" not in flags
        hosts = builtin.listen_hosts(listen, flag, interface_addresses) if is_used else ()
        conf, is_help = flags.get("conf"), bool(flags.get("h"))
        objects = None if is_help else source_objects(flags)
        text = builtin.corefile(
            hosts or (DEFAULT_LISTEN,),
            forward=forward,
            log=bool(flags.get("log")),
            header=recorded_header(objects),
        )
        control = None if flags.get("control") is None else str(flags["control"])
        token = control_path.token_for(control)
    except (FlagError, CorefileError) as error:
        complain(error)
        return 1
    if is_help:
        say_text(f"Usage: hsdns serve [FLAG...]\n\nFlags:\n{usage(FLAGS)}")
        return 0

    from hsdns.cli import launch
    from hsdns.cli.coredns import version_text
    from hsdns.limits import usable_cpus

    count = workers_of(flags) or usable_cpus()
    port = flags.get("dns.port", DEFAULT_PORT)
    assert isinstance(port, int)
    selecting = [
        word
        for name in ("conf", "source")
        if name in flags
        for word in (f"-{name}", *_words(flags[name]))
    ]
    command = shlex.join(["hsdns", "names", *selecting])

    def greet(configuration: Configuration, addresses: Addresses) -> list[str]:
        return [launch.fast_path_line(count), *greeting(configuration, addresses, command)]

    quiet = bool(flags.get("quiet"))
    return launch.serve(
        builtin.corefile_source(conf, text),
        port,
        quiet=quiet,
        banner=version_text(),
        objects=objects,
        check=check_sources if quiet else _check_and_follow,
        greet=greet,
        workers=count,
        verbose=bool(flags.get("v")),
        control=_control(control),
        control_token=token,
        keeps_queries=True,
        faults=bool(flags.get("faults", True)),
    )


def _control(given: str | None) -> str | None:
    """The location of the control door; a server without a place for a socket runs without one."""
    if given is not None:
        return None if given == control_path.OFF else given
    try:
        return control_path.make_path()
    except control_path.ControlPathError as error:
        complain(error)
        return None


def greeting(configuration: Configuration, addresses: Addresses, command: str) -> list[str]:
    """What is served, and queries to try with their answers; `command` lists all names."""
    from hsdns.cli.overview import MOST_ANSWERS, examples, overview
    from hsdns.plugins.kubernetes import Kubernetes

    blocks = [plugin for plugin in configuration.plugins if isinstance(plugin, Kubernetes)]
    lines = overview(blocks, command)
    where = _where(configuration, addresses, blocks[0]) if blocks else ""
    found = examples(blocks[0].answer_set()) if where else []
    for qname, rrtype, answer in found:
        lines += ["", f"  dig {where} +short {qname} {rrtype}"]
        lines += [f"    {text}" for text in answer[:MOST_ANSWERS]]
        if len(answer) > MOST_ANSWERS:
            lines.append(f"    … and {len(answer) - MOST_ANSWERS} more")
    if found:
        lines += ["", "Several records come in any order.  Stop with Ctrl-C."]
    return lines


def _check_and_follow(configuration: Configuration) -> None:
    check_sources(configuration)
    show_changes(configuration)


def show_changes(configuration: Configuration) -> None:
    """Print a line for each change in DNS by a change of manifests or of a recording."""
    from hsdns.plugins.kubernetes import Kubernetes
    from hsdns.sources.manifests import Manifests
    from hsdns.sources.replay import Replay

    for plugin in configuration.plugins:
        if isinstance(plugin, Kubernetes) and isinstance(plugin.source, Manifests | Replay):
            plugin.show_changes = lambda lines: say(*lines)


def _where(configuration: Configuration, addresses: Addresses, block: Plugin) -> str:
    """The server for dig and the names of a block: loopback if it listens on all addresses."""
    loopback = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    for served in configuration.listeners:
        if served.listen.scheme == "dns" and any(each is block for each in served.plugins):
            host, port, _ = served.listen
            known = addresses.get(served.listen)
            return f"@{loopback.get(host, host)} -p {port if known is None else known.port}"
    return ""


def _words(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
