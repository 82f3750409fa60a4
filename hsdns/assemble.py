"""The composition root: a Corefile's tree to plugins, chains and listeners.

Path: corefile/parser.py -> assemble() -> server/lifecycle.py starts what comes out; -validate stops here.
Rule 1: nothing is opened, contacted or waited for; a fault is a CorefileError with its place.
Rule 2: plugins are set up directive by directive in ORDER, through all blocks, as CoreDNS does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from ipaddress import ip_address
from typing import NamedTuple

from hsdns.chain import Block, Handler, Next, Plugin
from hsdns.corefile.keys import Key, parse_key
from hsdns.corefile.tree import Corefile, CorefileError, Directive, Position, ServerBlock, Token
from hsdns.entrance import Entrance, Entrances
from hsdns.plugins import ORDER
from hsdns.wire.name import Name

DEFAULT_PORT = 53
Interfaces = Mapping[str, Sequence[str]]  # interface name -> its addresses
SCHEMES = ("dns", "tls", "https")
NO_SCHEMES = {
    "quic": "since Python has no well-kept QUIC that shares its TLS",
    "https3": "since it stands on QUIC",
    "grpc": "since nothing but CoreDNS itself asks over it",
}
# Plugins whose presence lets other classes than IN through.
OPEN_CLASSES = frozenset({"chaos", "forward"})


class ListenAddress(NamedTuple):
    """Where queries arrive; `host` "" is every address of this host.  All schemes but `dns` are TCP alone."""

    host: str
    port: int
    scheme: str = "dns"

    @property
    def is_wildcard(self) -> bool:
        """Whether it is every address; `bind 0.0.0.0` and `bind ::` too stand for both families, as in Go."""
        return not self.host or ip_address(self.host).is_unspecified

    @property
    def server(self) -> str:
        """The form that metric labels have: `dns://:53`, `tls://[::1]:853`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass
class AssembledBlock:
    """A server block whose plugins are set up, in ORDER."""

    keys: tuple[Key, ...]
    listens: tuple[ListenAddress, ...]
    filtered: bool = False  # by a `view`, so that others may have the same zone
    plugins: list[Plugin] = field(default_factory=list)

    @property
    def handlers(self) -> list[Handler]:
        """The plugins that stand in the chain."""
        return [plugin for plugin in self.plugins if isinstance(plugin, Handler)]

    @property
    def view(self) -> str:
        """The name of the block's view, "" where it has none."""
        return next((handler.view for handler in self.handlers if handler.view), "")

    @property
    def guards(self) -> tuple[Handler, ...]:
        """The handlers that look at a query before the block is chosen."""
        return tuple(handler for handler in self.handlers if handler.guards)


class ServedAddress(NamedTuple):
    """One address and what it answers; a zone has several blocks, in file order, only where views choose."""

    listen: ListenAddress
    served: dict[Name, list[AssembledBlock]]

    @property
    def zones(self) -> dict[Name, AssembledBlock]:
        """The first block of each zone."""
        return {zone: blocks[0] for zone, blocks in self.served.items()}

    @property
    def any_class(self) -> bool:
        """Whether classes other than IN reach the chains."""
        return any(
            plugin.name in OPEN_CLASSES
            for blocks in self.served.values()
            for block in blocks
            for plugin in block.plugins
        )

    def entrances(self, chains: Mapping[int, Next | None]) -> Entrances | None:
        """What chooses a block for a query, given chains by id() of their blocks; None where the zone alone does."""
        if not any(block.guards for blocks in self.served.values() for block in blocks):
            return None
        return Entrances(
            {
                zone: [Entrance(chains[id(block)], block.guards) for block in blocks]
                for zone, blocks in self.served.items()
            }
        )


@dataclass(frozen=True)
class Configuration:
    """All of a Corefile, ready to start."""

    corefile: Corefile
    blocks: tuple[AssembledBlock, ...]
    listeners: tuple[ServedAddress, ...]

    @property
    def plugins(self) -> list[Plugin]:
        """Every plugin, in the order in which they start."""
        return [
            plugin
            for name in ORDER
            for block in self.blocks
            for plugin in block.plugins
            if plugin.name == name
        ]


def assemble(
    corefile: Corefile,
    *,
    default_port: int = DEFAULT_PORT,
    interfaces: Callable[[], Interfaces] = dict,
    source: tuple[Token, ...] | None = None,
    validating: bool = False,
    warn: Callable[[str], None],
) -> Configuration:
    """Set up every plugin of a Corefile; raise CorefileError.

    `interfaces` is asked only where a `bind` names one.  `source` (name and arguments) replaces the `source` of every
    kubernetes block.  `warn` takes sentences for the operator.
    """
    for warning in corefile.warnings:
        warn(warning)
    parsed = [(block, _keys(block, default_port)) for block in corefile.blocks]
    binds = [_bind(block, keys, interfaces) for block, keys in parsed]
    assembled = [
        AssembledBlock(keys, listens, _has_view(block))
        for (block, keys), listens in zip(parsed, binds, strict=True)
    ]
    listeners = _listeners(assembled)
    for name in ORDER:
        for (block, keys), target in zip(parsed, assembled, strict=True):
            directives = [
                directive for directive in block.directives if directive.name.text == name
            ]
            if directives:
                setting = Block(
                    zones=tuple(dict.fromkeys(key.zone for key in keys)),
                    servers=tuple(listen.server for listen in target.listens),
                    plugins=frozenset(directive.name.text for directive in block.directives),
                    corefile_dir=_folder(directives[0]),
                    validating=validating,
                    warn=warn,
                    source=source,
                    root=_root(target.plugins),
                )
                target.plugins.append(plugin_class(name).setup(directives, setting))
    for target in assembled:
        for handler in target.handlers:
            handler.meet(target.handlers)
    for listener in listeners:
        if listener.listen.scheme != "dns":
            _agree_on_tls(listener)
    return Configuration(corefile, tuple(assembled), listeners)


def plugin_class(name: str) -> type[Plugin]:
    """The class of a directive: the one in hsdns/plugins/NAME.py that carries its name."""
    module = import_module(f"hsdns.plugins.{name}")
    for found in vars(module).values():
        if (
            isinstance(found, type)
            and issubclass(found, Plugin)
            and vars(found).get("name") == name
        ):
            return found
    raise LookupError(f"hsdns/plugins/{name}.py has no class for {name}")


def _keys(block: ServerBlock, default_port: int) -> tuple[Key, ...]:
    keys = tuple(key for token in block.keys for key in parse_key(token, default_port))
    for key in keys:
        if key.scheme not in SCHEMES:
            raise CorefileError(
                key.token.position,
                f'"{key.token.text}": hsdns has no {key.scheme}:// listener, {NO_SCHEMES[key.scheme]}; '
                f"it has {', '.join(f'{scheme}://' for scheme in SCHEMES)}",
            )
    return keys


def _has_view(block: ServerBlock) -> bool:
    return any(directive.name.text == "view" for directive in block.directives)


def _bind(
    block: ServerBlock, keys: tuple[Key, ...], interfaces: Callable[[], Interfaces]
) -> tuple[ListenAddress, ...]:
    """The addresses a block listens on: each port of its keys, on each bound address."""
    directives = [directive for directive in block.directives if directive.name.text == "bind"]
    hosts: Sequence[str] = ("",)
    if directives:
        from hsdns.plugins.bind import Bind  # noqa: PLC0415 - only blocks with bind need it

        setting = Block((), (), frozenset(), "", validating=True, warn=lambda sentence: None)
        hosts = Bind.setup(directives, setting).addresses(interfaces())
    ports = dict.fromkeys((key.port, key.scheme) for key in keys)
    return tuple(ListenAddress(host, port, scheme) for port, scheme in ports for host in hosts)


def _listeners(blocks: Sequence[AssembledBlock]) -> tuple[ServedAddress, ...]:
    """Sort zones to listeners; raise CorefileError for a zone that two blocks without a view claim."""
    found: dict[ListenAddress, ServedAddress] = {}
    claimed: dict[tuple[Name, ListenAddress], Position] = {}
    for block in blocks:
        for key in block.keys:
            for listen in block.listens:
                if (listen.port, listen.scheme) != (key.port, key.scheme):
                    continue
                _refuse_two_schemes(key, listen, found)
                listener = found.setdefault(listen, ServedAddress(listen, {}))
                where = f"{key.scheme}://{key.zone.to_text()}:{key.port}"
                served = listener.served.setdefault(key.zone, [])
                if not block.filtered and (key.zone, listen) in claimed:
                    raise CorefileError(
                        key.token.position,
                        f"{where} is already served by the block at {claimed[key.zone, listen]}; "
                        "merge the blocks or change one of the keys",
                    )
                for other in (
                    (listen._replace(host=""),)
                    if listen.host
                    else {each for _, each in claimed if each._replace(host="") == listen}
                ):
                    if other != listen and (key.zone, other) in claimed:
                        raise CorefileError(
                            key.token.position,
                            f"{where} overlaps with the block at {claimed[key.zone, other]}: one of them is "
                            "bound to an address and the other to all; give both a bind",
                        )
                served.append(block)
                if not block.filtered:
                    claimed[key.zone, listen] = key.token.position
    return tuple(found.values())


def _refuse_two_schemes(
    key: Key, listen: ListenAddress, found: Mapping[ListenAddress, ServedAddress]
) -> None:
    """Raise CorefileError where a port is wanted for two kinds of TCP connections."""
    for other in found:
        hosts = {other.host, listen.host}
        if (
            other.scheme != listen.scheme
            and other.port == listen.port != 0  # the kernel chooses another one each time
            and (len(hosts) == 1 or "" in hosts)
        ):
            raise CorefileError(
                key.token.position,
                f'"{key.token.text}": port {listen.port} already speaks {other.scheme}://; change one of the ports',
            )


def _agree_on_tls(listener: ServedAddress) -> None:
    """Raise CorefileError where blocks of one address have different certificates."""
    from hsdns.plugins.tls import only_one  # noqa: PLC0415 - only addresses with TLS need it

    only_one(
        plugin
        for blocks in listener.served.values()
        for block in blocks
        for plugin in block.plugins
    )


def _root(plugins: Sequence[Plugin]) -> str:
    """The folder that a block's `root` names; it is set up before all plugins that name files."""
    from hsdns.plugins.root import Root  # noqa: PLC0415 - only blocks with root need it

    return next((plugin.path for plugin in plugins if isinstance(plugin, Root)), "")


def _folder(directive: Directive) -> str:
    folder, slash, _ = directive.name.position.file.rpartition("/")
    return folder or slash or "."
