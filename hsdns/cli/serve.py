"""`hsdns serve`: a DNS server for a simulated cluster, described by manifests or generated.

Path: argv -> here -> cli/launch.py.
Without --conf it serves a small built-in Corefile, and without --source the demo cluster in the package.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from hsdns.cli import control_path
from hsdns.cli.command import OUTPUT, FlagError, complain, flag, say
from hsdns.cli.coredns import WORKERS
from hsdns.cli.source import (
    DEMO,
    SourceOptions,
    check_sources,
    check_upstreams,
    corefile,
    corefile_source,
    expect_demo,
    listen_hosts,
    recorded_header,
)

if TYPE_CHECKING:
    from hsdns.assemble import Configuration
    from hsdns.cli.launch import Addresses
    from hsdns.plugin import Plugin

DEFAULT_LISTEN: Final = "127.0.0.1"
DEFAULT_PORT: Final = 1053
DASHBOARD: Final = "127.0.0.1:8053"
ON_PURPOSE: Final = (
    "Names in the namespace broken fail on purpose; hsdns doctor broken --source demo explains why."
)
VARIABLE: Final = "HSDNS_LISTEN"  # the default of -listen, which the image sets to all addresses
# The parts of a Corefile that correspond to flags that exclude --conf.
IN_A_COREFILE: Final = {"listen": "bind", "forward": "forward", "log": "log"}


class Serve(SourceOptions):
    """Serves a cluster until it is stopped."""

    name = "serve"

    listen: str | None = flag(
        None,
        "address to listen on, without --conf: an IP address, localhost, or an interface "
        f"(default {DEFAULT_LISTEN}, or {VARIABLE} in the environment)",
        "ADDRESS",
    )
    forward: list[str] = flag(
        [],
        "servers for names outside the cluster, or a resolv.conf, without --conf (default: REFUSED)",
        "ADDRESS...",
    )
    log: bool = flag(False, "log each query, without --conf")
    port: int = flag(
        DEFAULT_PORT,
        f"port of Corefile keys without one (default {DEFAULT_PORT})",
        "PORT",
        name="dns.port",
        alias="p",
    )
    quiet: bool = flag(False, "do not print the Services or their changes")
    workers: int | None = flag(None, WORKERS)
    control: str | None = flag(
        None,
        control_path.FLAG,
        help="control socket, for this user only; ADDRESS:PORT, protected by the token in "
        f"{control_path.TOKEN}; or off (default: a socket in the user's folder)",
    )
    dashboard: str | None = flag(
        None,
        f"serve the web page at a loopback address (default {DASHBOARD}); hsdns dashboard prints its URL",
        "[=ADDRESS:PORT]",
        bare=DASHBOARD,
    )
    faults: bool = flag(
        True, "accept fault rules through the control API (default; --faults=false refuses them)"
    )
    o: str = flag(
        "text",
        OUTPUT,
        help="format of standard output: text (default), or json, one line once it serves; "
        "the log is then on standard error",
    )
    v: bool = flag(
        False, "show which server blocks the answer table caches, and why not the others"
    )

    def run(self) -> int:
        """Serve."""
        from hsdns.server.host import interface_addresses

        for each, directive in IN_A_COREFILE.items():
            if getattr(self, each) and self.conf is not None:
                raise FlagError(
                    f"--{each} and --conf cannot be combined; write {directive} in the Corefile"
                )
        check_upstreams(self.forward)
        listen, variable = os.environ.get(VARIABLE) or DEFAULT_LISTEN, VARIABLE
        if self.listen is not None:
            listen, variable = self.listen, "--listen"
        hosts: tuple[str, ...] = (DEFAULT_LISTEN,)
        if self.conf is None:
            hosts = listen_hosts(listen, variable, interface_addresses) or hosts
        is_demo = self.conf is None and self.source in (None, [DEMO])
        if is_demo:
            expect_demo()
        objects = self.objects()
        header = recorded_header(objects)
        text = corefile(hosts, forward=self.forward, log=self.log, header=header)
        token = control_path.token_for(self.control)

        from hsdns.cli import launch
        from hsdns.cli.coredns import version, version_text
        from hsdns.limits import usable_cpus

        count = self.workers or usable_cpus()
        conf = [] if self.conf is None else ["--conf", self.conf]
        source = [] if self.source is None else ["--source", *self.source]
        command = shlex.join(["hsdns", "names", *conf, *source])

        def greet(configuration: Configuration, addresses: Addresses) -> list[str]:
            lines = [launch.fast_path_line(count), *greeting(configuration, addresses, command)]
            return [*lines, *([ON_PURPOSE] if is_demo else [])]

        return launch.serve(
            corefile_source(self.conf, text),
            launch.ServeOptions(
                self.port,
                quiet=self.quiet,
                banner=version_text(),
                objects=objects,
                check=check_sources if self.quiet or self.o == "json" else _check_and_follow,
                as_json=version() if self.o == "json" else None,
                greet=greet,
                workers=count,
                verbose=self.v,
                dashboard=None if self.dashboard is None else _loopback(self.dashboard),
                control=_control(self.control),
                control_token=token,
                keeps_queries=True,
                faults=self.faults,
                bad=self.bad,
            ),
        )


def _loopback(text: str) -> str:
    """The address of the page; raise FlagError, or OSError where another server has it."""
    from socket import AF_INET, AF_INET6, create_server

    from hsdns.plugins.control import is_loopback

    found = control_path.address_of(text.replace("localhost:", "127.0.0.1:"))
    if found is None or not is_loopback(found.host):
        raise FlagError(
            f'--dashboard needs a loopback address and a port, such as {DASHBOARD}, found "{text}"; for others, '
            "forward a port with ssh -L or kubectl port-forward"
        )
    try:
        create_server(
            found, family=AF_INET6 if ":" in found.host else AF_INET
        ).close()  # two servers that share a port would have two tokens
    except OSError as error:
        raise OSError(
            f"cannot listen on {found} for the web page: {error.strerror}; "
            "give another address with --dashboard=ADDRESS:PORT"
        ) from None
    return str(found)


def _control(given: str | None) -> str | None:
    """The location of the control API; a server without a place for a socket runs without one."""
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
