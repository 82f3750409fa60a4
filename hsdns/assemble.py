"""The composition root: from a Corefile's tree to plugins, their blocks and the addresses to serve.

Path: corefile/parser.py -> assemble() -> server/lifecycle.py starts the result; -validate stops here.
Rule 1: nothing is opened, contacted or waited for; a fault is a CorefileError with its place.
Rule 2: plugins are set up directive by directive in ORDER, through all blocks, as CoreDNS does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from ipaddress import ip_address
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from hsdns.answer_table.policy import BlockPolicy
from hsdns.chain import BlockChoice, Candidate, Handler, Next, RequestFilter, has
from hsdns.corefile.keys import HostPort, Key, parse_key
from hsdns.corefile.properties import check_closed
from hsdns.corefile.tree import (
    Corefile,
    Directive,
    Errors,
    NotInHsdns,
    Position,
    ServerBlock,
    Token,
    each_error,
)
from hsdns.plugin import Block, Plugin
from hsdns.plugins import ORDER
from hsdns.wire.name import ROOT, Name

DEFAULT_PORT = 53
Interfaces = Callable[[], Mapping[str, Sequence[str]]]  # interface name -> its addresses
SCHEMES = ("dns", "tls", "https")
NO_SCHEMES = {
    "quic": "since Python has no maintained QUIC library that works with its ssl module",
    "https3": "since it needs QUIC",
    "grpc": "since only CoreDNS itself sends queries over it",
}
# Plugins whose presence lets other classes than IN through.
OPEN_CLASSES = frozenset({"chaos", "forward"})


@runtime_checkable
class ServesTls(Protocol):
    """A plugin that has the certificate of the addresses that its block is served at (`tls`)."""

    context: Any  # an ssl.SSLContext

    def agree_with(self, other: Self) -> None:
        """Raise CorefileError where the two cannot serve one address."""


class ListenAddress(NamedTuple):
    """Where queries arrive; `host` "" is every address of this host.  All schemes but `dns` are TCP only."""

    host: str
    port: int
    scheme: str = "dns"

    @property
    def is_wildcard(self) -> bool:
        """Whether it is every address; `bind 0.0.0.0` and `bind ::` both mean both families, as in Go."""
        return not self.host or ip_address(self.host).is_unspecified

    @property
    def server(self) -> str:
        """The form that metric labels have: `dns://:53`, `tls://[::1]:853`."""
        return f"{self.scheme}://{HostPort(self.host, self.port)}"


@dataclass
class AssembledBlock:
    """A server block whose plugins are set up, in ORDER; what is derived of them is looked up once they all are."""

    keys: tuple[Key, ...]
    listens: tuple[ListenAddress, ...] = ()
    filtered: bool = False  # by a `view`, so that others may have the same zone
    is_whole: bool = True  # False if the setup of a plugin had an error, and errors are collected
    plugins: list[Plugin] = field(default_factory=list)
    fault: Handler | None = None  # of rules that stand while it runs

    @cached_property
    def handlers(self) -> list[Handler]:
        """The plugins of the chain, with the rules that stand while it runs at the place of `fault`."""
        found: list[Handler] = [plugin for plugin in self.plugins if has(plugin, Handler)]
        if self.fault is None:
            return found
        at = ORDER.index(self.fault.name)
        return sorted([*found, self.fault], key=lambda each: ORDER.index(each.name) > at)

    def put_fault(self, fault: Handler | None) -> None:
        """Put a handler into the chain, or take it out again; what is derived of the plugins is looked up anew."""
        if fault is not self.fault:
            self.fault = fault
            for name in ("handlers", "policy"):
                vars(self).pop(name, None)

    @cached_property
    def view(self) -> str:
        """The name of the block's view, "" where it has none."""
        return next((each.view for each in self.plugins if each.view), "")

    @cached_property
    def filters(self) -> tuple[RequestFilter, ...]:
        """The handlers that see a query before the block is chosen."""
        return tuple(handler for handler in self.handlers if has(handler, RequestFilter))

    @cached_property
    def policy(self) -> BlockPolicy:
        """Which of its replies the answer table may store; looked up once its plugins have started."""
        return BlockPolicy(self.handlers)

    @cached_property
    def logs_stacks(self) -> bool:
        """Whether the stack of an error that a handler raises is logged."""
        return any(each.stacktrace for each in self.plugins)

    def take_apart(self) -> None:
        """Free the plugins, and what was looked up."""
        self.plugins.clear()
        self.fault = None
        for name in ("handlers", "filters", "policy"):
            vars(self).pop(name, None)


class ServedAddress(NamedTuple):
    """One address and the blocks of each zone there, in file order; several only where views choose among them."""

    listen: ListenAddress
    served: dict[Name, list[AssembledBlock]]

    @property
    def zones(self) -> dict[Name, AssembledBlock]:
        """The first block of each zone."""
        return {zone: blocks[0] for zone, blocks in self.served.items()}

    @property
    def plugins(self) -> list[Plugin]:
        """The plugins of all blocks, zone by zone."""
        return [
            plugin
            for blocks in self.served.values()
            for block in blocks
            for plugin in block.plugins
        ]

    def find_tls(self) -> ServesTls | None:
        """Find what has the certificate, None for none; raise CorefileError where blocks have different ones."""
        found = [each for each in self.plugins if has(each, ServesTls)]
        for other in found[1:]:
            other.agree_with(found[0])
        return found[0] if found else None

    @property
    def is_whole(self) -> bool:
        """Whether all plugins of all its blocks are set up."""
        return all(block.is_whole for blocks in self.served.values() for block in blocks)

    @property
    def any_class(self) -> bool:
        """Whether classes other than IN reach the chains."""
        return any(plugin.name in OPEN_CLASSES for plugin in self.plugins)

    def block_choice(self, chains: Mapping[int, Next | None]) -> BlockChoice[Next]:
        """What chooses the block for a query, given the chains by id() of their blocks."""
        return BlockChoice(
            {
                zone: [Candidate(zone, chains[id(block)], block.filters) for block in blocks]
                for zone, blocks in self.served.items()
            }
        )


@dataclass(frozen=True)
class Configuration:
    """All of a Corefile, ready to start."""

    corefile: Corefile
    blocks: tuple[AssembledBlock, ...]
    listeners: tuple[ServedAddress, ...]

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """Every plugin, in the order in which they start."""
        order = {name: index for index, name in enumerate(ORDER)}
        found = (plugin for block in self.blocks for plugin in block.plugins)
        return tuple(sorted(found, key=lambda plugin: order[plugin.name]))

    async def take_apart(self, pause: Callable[[], Awaitable[None]]) -> None:
        """Free the plugins, which have stopped, a block at a time; `pause` is awaited in between."""
        vars(self).pop("plugins", None)
        for listener in self.listeners:
            while listener.served:
                listener.served.popitem()
                await pause()
        for block in self.blocks:
            block.take_apart()
            await pause()


def assemble(
    corefile: Corefile,
    *,
    default_port: int = DEFAULT_PORT,
    interfaces: Interfaces = dict,
    source: tuple[Token, ...] | None = None,
    validating: bool = False,
    runs_code: bool = True,
    warn: Callable[[str], None],
    errors: Errors | None = None,
) -> Configuration:
    """Set up every plugin of a Corefile; raise CorefileError, or collect all in `errors`.

    `interfaces` is asked only where a `bind` names one.  `source` (name and arguments) replaces the `source` of every
    kubernetes block.  Without `runs_code` no module and no program that the file names runs.
    `warn` takes sentences for the operator.  After collected errors the result lacks what has them.
    """
    errors = errors if errors is not None else Errors()
    for warning in corefile.warnings:
        warn(warning)
    interfaces = cache(interfaces)
    assembled = [AssembledBlock(_keys(block, default_port, errors)) for block in corefile.blocks]
    named = [_by_name(block) for block in corefile.blocks]
    for target, found in zip(assembled, named, strict=True):
        target.listens = _bind(found.get("bind", ()), target.keys, interfaces, errors)
        target.filtered = "view" in found
    listeners = _listeners(assembled, errors)
    for name in ORDER:
        for target, found in zip(assembled, named, strict=True):
            if (directives := found.get(name)) and not _lacks_root(found, target):
                setting = Block(
                    zones=tuple(dict.fromkeys(key.zone for key in target.keys)) or (ROOT,),
                    servers=tuple(listen.server for listen in target.listens) or ("dns://:53",),
                    plugins=frozenset(found),
                    corefile_dir=_folder(directives[0]),
                    validating=validating,
                    warn=warn,
                    source=source,
                    root=_root(target.plugins),
                    runs_code=runs_code,
                )
                made = _set_up(name, directives, setting, errors)
                if made is not None:
                    target.plugins.append(made)
                else:
                    target.is_whole = False
    for target in assembled:
        for plugin in target.plugins if target.is_whole else ():
            with errors:
                plugin.find_handlers(target.handlers)
    earlier: list[Plugin] = []
    for target in assembled:
        for plugin in target.plugins:
            with errors:
                plugin.find_peers(earlier)
            earlier.append(plugin)
    for listener in listeners:
        if listener.listen.scheme != "dns" and listener.is_whole:
            with errors:
                listener.find_tls()
    # Without the tree, which is most of its memory.
    return Configuration(replace(corefile, blocks=()), tuple(assembled), listeners)


@cache
def plugin_class(name: str) -> type[Plugin]:
    """The class of a directive: the one in hsdns/plugins/NAME.py with this `name`."""
    module = import_module(f"hsdns.plugins.{name}")
    for found in vars(module).values():
        if (
            isinstance(found, type)
            and issubclass(found, Plugin)
            and vars(found).get("name") == name
        ):
            return found
    raise LookupError(f"hsdns/plugins/{name}.py has no class for {name}")


def _set_up(
    name: str, directives: Sequence[Directive], block: Block, errors: Errors
) -> Plugin | None:
    """Set up a plugin; None if it has errors, and they are collected."""
    found = plugin_class(name)

    def set_up(given: Sequence[Directive]) -> Plugin:
        check_closed(given, found.PROPERTIES)
        return found.setup(given, block)

    with errors:
        return set_up(directives)
    for error in each_error(set_up, directives):
        errors.add(error)
    return None


def _lacks_root(named: Mapping[str, object], target: AssembledBlock) -> bool:
    """Whether the directory of the block's files is not known, since its `root` has an error."""
    return (
        not target.is_whole
        and "root" in named
        and all(plugin.name != "root" for plugin in target.plugins)
    )


def _keys(block: ServerBlock, default_port: int, errors: Errors) -> tuple[Key, ...]:
    keys: list[Key] = []
    for token in block.keys:
        with errors:
            found = parse_key(token, default_port)
            scheme = found[0].scheme
            if scheme not in SCHEMES:
                raise NotInHsdns(
                    token.position,
                    f'"{token.text}": hsdns has no {scheme}:// listener, {NO_SCHEMES[scheme]}; '
                    f"it has {', '.join(f'{known}://' for known in SCHEMES)}",
                )
            keys += found
    return tuple(keys)


def _by_name(block: ServerBlock) -> dict[str, list[Directive]]:
    found: dict[str, list[Directive]] = {}
    for directive in block.directives:
        found.setdefault(directive.name.text, []).append(directive)
    return found


def _bind(
    directives: Sequence[Directive],
    keys: tuple[Key, ...],
    interfaces: Interfaces,
    errors: Errors,
) -> tuple[ListenAddress, ...]:
    """The addresses a block listens on: each port of its keys, on each bound address; none after an error."""
    hosts: Sequence[str] = ("",)
    if directives:
        setting = Block((), (), frozenset(), "", validating=True, warn=lambda sentence: None)
        hosts = ()
        with errors:
            from hsdns.plugins.bind import Bind  # noqa: PLC0415 - for Corefiles that have it

            hosts = Bind.setup(directives, setting).addresses(interfaces)
    ports = dict.fromkeys((key.port, key.scheme) for key in keys)
    return tuple(ListenAddress(host, port, scheme) for port, scheme in ports for host in hosts)


def _listeners(blocks: Sequence[AssembledBlock], errors: Errors) -> tuple[ServedAddress, ...]:
    """The zones of each address; an error for a zone that two blocks without a view serve there."""
    found: dict[ListenAddress, ServedAddress] = {}
    owners: dict[tuple[Name, ListenAddress], Position] = {}
    for block in blocks:
        for key in block.keys:
            for listen in block.listens:
                if (listen.port, listen.scheme) != (key.port, key.scheme):
                    continue
                with errors:
                    _refuse_two_schemes(key, listen, found)
                    listener = found.setdefault(listen, ServedAddress(listen, {}))
                    where = f"{key.scheme}://{key.zone.to_text()}:{key.port}"
                    served = listener.served.setdefault(key.zone, [])
                    if not block.filtered and (key.zone, listen) in owners:
                        raise key.token.error(
                            f"{where} is already served by the block at {owners[key.zone, listen]}; "
                            "merge the blocks or change one of the keys"
                        )
                    for other in (
                        (listen._replace(host=""),)
                        if listen.host
                        else {each for _, each in owners if each._replace(host="") == listen}
                    ):
                        if other != listen and (key.zone, other) in owners:
                            raise key.token.error(
                                f"{where} overlaps with the block at {owners[key.zone, other]}: one of them is "
                                "bound to an address and the other to all; give both a bind"
                            )
                    served.append(block)
                    if not block.filtered:
                        owners[key.zone, listen] = key.token.position
    return tuple(found.values())


def _refuse_two_schemes(
    key: Key, listen: ListenAddress, found: Mapping[ListenAddress, ServedAddress]
) -> None:
    """Raise CorefileError where a port is to be used for two schemes."""
    for other in found:
        hosts = {other.host, listen.host}
        if (
            other.scheme != listen.scheme
            and other.port == listen.port != 0  # the kernel chooses another one each time
            and (len(hosts) == 1 or "" in hosts)
        ):
            raise key.token.error(
                f'"{key.token.text}": port {listen.port} already speaks {other.scheme}://; change one of the ports'
            )


def _root(plugins: Sequence[Plugin]) -> str:
    """The folder that a block's `root` names."""
    return next((plugin.root_folder for plugin in plugins if plugin.root_folder), "")


def _folder(directive: Directive) -> str:
    folder, slash, _ = directive.name.position.file.rpartition("/")
    return folder or slash or "."
