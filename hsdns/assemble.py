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

from hsdns.chain import Block, Handler, Plugin
from hsdns.corefile.keys import Key, parse_key
from hsdns.corefile.tree import Corefile, CorefileError, Directive, Position, ServerBlock, Token
from hsdns.plugins import ORDER
from hsdns.wire.name import Name

DEFAULT_PORT = 53
Interfaces = Mapping[str, Sequence[str]]  # interface name -> its addresses
OPEN_CLASSES = frozenset(
    {"chaos", "forward"}
)  # plugins whose presence lets other classes than IN through


class Listen(NamedTuple):
    """Where queries arrive; `host` "" is every address of this host."""

    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether it is every address; `bind 0.0.0.0` and `bind ::` too stand for both families, as in Go."""
        return not self.host or ip_address(self.host).is_unspecified

    @property
    def server(self) -> str:
        """The form that metric labels have: `dns://:53`, `dns://[::1]:53`."""
        return (
            f"dns://[{self.host}]:{self.port}"
            if ":" in self.host
            else f"dns://{self.host}:{self.port}"
        )


@dataclass
class AssembledBlock:
    """A server block whose plugins are set up, in ORDER."""

    keys: tuple[Key, ...]
    listens: tuple[Listen, ...]
    plugins: list[Plugin] = field(default_factory=list)

    @property
    def handlers(self) -> list[Handler]:
        """The plugins that stand in the chain."""
        return [plugin for plugin in self.plugins if isinstance(plugin, Handler)]


class Listener(NamedTuple):
    """One address and what it answers."""

    listen: Listen
    zones: dict[Name, AssembledBlock]

    @property
    def any_class(self) -> bool:
        """Whether classes other than IN reach the chains."""
        return any(
            plugin.name in OPEN_CLASSES for block in self.zones.values() for plugin in block.plugins
        )


@dataclass(frozen=True)
class Configuration:
    """All of a Corefile, ready to start."""

    corefile: Corefile
    blocks: tuple[AssembledBlock, ...]
    listeners: tuple[Listener, ...]

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
        AssembledBlock(keys, listens) for (_, keys), listens in zip(parsed, binds, strict=True)
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
                )
                target.plugins.append(plugin_class(name).setup(directives, setting))
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
        if key.scheme != "dns":
            raise CorefileError(
                key.token.position,
                f'"{key.token.text}": hsdns serves plain DNS only, not {key.scheme}:// yet; remove the scheme',
            )
    return keys


def _bind(
    block: ServerBlock, keys: tuple[Key, ...], interfaces: Callable[[], Interfaces]
) -> tuple[Listen, ...]:
    """The addresses a block listens on: each port of its keys, on each bound address."""
    directives = [directive for directive in block.directives if directive.name.text == "bind"]
    hosts: Sequence[str] = ("",)
    if directives:
        from hsdns.plugins.bind import Bind  # noqa: PLC0415 - only blocks with bind need it

        setting = Block((), (), frozenset(), "", validating=True, warn=lambda sentence: None)
        hosts = Bind.setup(directives, setting).addresses(interfaces())
    ports = dict.fromkeys(key.port for key in keys)
    return tuple(Listen(host, port) for port in ports for host in hosts)


def _listeners(blocks: Sequence[AssembledBlock]) -> tuple[Listener, ...]:
    """Sort zones to listeners; raise CorefileError for a zone that two blocks claim."""
    found: dict[Listen, Listener] = {}
    claimed: dict[tuple[Name, int, str], Position] = {}
    for block in blocks:
        for key in block.keys:
            for listen in block.listens:
                if listen.port != key.port:
                    continue
                listener = found.setdefault(listen, Listener(listen, {}))
                where = f"dns://{key.zone.to_text()}:{key.port}"
                if key.zone in listener.zones:
                    raise CorefileError(
                        key.token.position,
                        f"{where} is already served by the block at {claimed[key.zone, key.port, listen.host]}; "
                        "merge the blocks or change one of the keys",
                    )
                for other in (
                    ("",)
                    if listen.host
                    else {host for zone, port, host in claimed if port == key.port}
                ):
                    if other != listen.host and (key.zone, key.port, other) in claimed:
                        raise CorefileError(
                            key.token.position,
                            f"{where} overlaps with the block at {claimed[key.zone, key.port, other]}: one of them is "
                            "bound to an address and the other to all; give both a bind",
                        )
                listener.zones[key.zone] = block
                claimed[key.zone, key.port, listen.host] = key.token.position
    return tuple(found.values())


def _folder(directive: Directive) -> str:
    folder, slash, _ = directive.name.position.file.rpartition("/")
    return folder or slash or "."
