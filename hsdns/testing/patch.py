"""Leads the resolvers of this process to a test's cluster: within `with cluster.patch():` it asks no other DNS server.

Path: cluster.patch() -> here -> the models of resolver/ on the sockets of ask/lookup.py -> server.py.
Rule 1: the functions of `socket`, and its sockets, look names up as the C library of a pod does.  Addresses,
        `localhost` and the name of the machine, which are in the /etc/hosts of a pod, need no query.
Rule 2: libraries with a resolver of their own ask the cluster, each in its own way: uvloop, dnspython, pycares (and
        with it aiodns and aiohttp) and gRPC with c-ares.  One that is imported later is led when it is imported.
Rule 3: what would ask another server raises ClusterError with its name: a function of `_socket` that a module has kept
        from before, a connection to port 53 or 853, also of uvloop, a channel of pycares or gRPC from before, gRPC's
        native resolver, its proxy, and a name at which its server listens.
Rule 4: at the end all is as before.  Python keeps an audit hook for ever; without a patch it does nothing.
"""

from __future__ import annotations

import _socket
import asyncio
import gc
import io
import os
import re
import socket
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from random import Random
from typing import Any, Final, NoReturn
from unittest.mock import patch as replaced

from hsdns.ask.lookup import Sockets
from hsdns.resolver import glibc, musl
from hsdns.resolver.cares import CAres
from hsdns.resolver.model import Model, Result, look_up
from hsdns.testing.errors import ClusterError, hides, unknown
from hsdns.testing.pod import forms, resolv_conf
from hsdns.wire import is_address
from hsdns.wire.iana import ADDRESSES, Rcode, RRType

# A failed lookup has a traceback without lines of this module, like a failure of the C library.
__tracebackhide__ = lambda raised: hides(raised) or isinstance(raised.value, OSError)  # noqa: E731 - a value

FAMILIES: Final[dict[int, tuple[int, ...]]] = {
    socket.AF_INET: (RRType.A,),
    socket.AF_INET6: (RRType.AAAA,),
}
# The C libraries, whose getaddrinfo Python calls.
MODELS: Final[dict[str, type[Model]]] = {each.name: each for each in (glibc.Glibc, musl.Musl)}
CODES: Final = {
    glibc.AGAIN: socket.EAI_AGAIN,
    glibc.NODATA: socket.EAI_NODATA,
    musl.AGAIN: socket.EAI_AGAIN,
    musl.NODATA: socket.EAI_NODATA,
}  # all others are EAI_NONAME
# netdb.h and glibc's texts for them
HOST_NOT_FOUND: Final = (1, "Unknown host")
TRY_AGAIN: Final = (2, "Host name lookup failure")
NO_NAMES: Final = ("", "<broadcast>")  # which sockets take in place of an address
DNS_PORTS: Final = (53, 853)
LOOKUPS: Final = ("getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo")
CONNECTS: Final = ("connect", "connect_ex", "bind", "sendto", "sendmsg")
PTR_TIMEOUT: Final = 5.0  # seconds, glibc's
MACHINE: Final[Callable[..., list[Any]]] = _socket.getaddrinfo
_Host = bytes | str | None


def is_number(host: str) -> bool:
    """Whether the C library takes a text as an address, also `127.1` and `fe80::1%eth0`."""
    with suppress(OSError):
        return bool(_socket.inet_aton(host))
    return is_address(host.partition("%")[0])


class PodResolver:
    """Looks names up as a program in a pod does; `server` is where the cluster answers, `exists` tells names apart."""

    def __init__(
        self,
        server: tuple[str, int],
        exists: Callable[[str], bool],
        namespace: str,
        resolver: str,
    ) -> None:
        if resolver not in MODELS:
            raise unknown("there is no model of a resolver", resolver, MODELS)
        self.server = server
        self.conf = resolv_conf(namespace)
        self._model, self._exists, self._namespace = MODELS[resolver], exists, namespace
        self._hosts = ("localhost", "localhost.localdomain", socket.gethostname().lower())

    def addresses(self, name: str, types: tuple[int, ...]) -> tuple[str, ...]:
        """The addresses of a name; raise socket.gaierror."""

        async def ask() -> Result:
            model = self._model(self.conf, Random())
            sockets = Sockets(model, self.server, Random())
            return (await look_up(model, name, types, sockets)).result

        result = Result((), glibc.NONAME, "")
        with (
            suppress(ValueError),
            ThreadPoolExecutor(1) as thread,
        ):  # this thread may run a loop of its own
            result = thread.submit(asyncio.run, ask()).result()
        if not result.addresses:
            raise socket.gaierror(CODES.get(result.error, socket.EAI_NONAME), result.error)
        return result.addresses

    def known(self, name: str, family: int = 0) -> str:
        """The address that a name is, or has in /etc/hosts; "" for a name to look up."""
        if name.lower().removesuffix(".") in self._hosts:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        return name if is_number(name) else ""

    # the functions of `_socket`

    def getaddrinfo(
        self,
        host: _Host,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as in socket.getaddrinfo
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """As _socket.getaddrinfo; raise socket.gaierror."""
        if host is None:
            return MACHINE(host, port, family, type, proto, flags)
        name, numeric = _text(host), flags | socket.AI_NUMERICHOST
        known = self.known(name, family)
        if flags == numeric and not is_number(name):
            raise socket.gaierror(socket.EAI_NONAME, glibc.NONAME)
        if known or not name:
            return MACHINE(known or host, port, family, type, proto, numeric)
        types = FAMILIES.get(family, ADDRESSES)
        numeric &= ~(socket.AI_CANONNAME | socket.AI_ADDRCONFIG)
        found: list[Any] = []
        for address in self.addresses(name, types):
            found += MACHINE(address, port, family, type, proto, numeric)
        if flags & socket.AI_CANONNAME and found:
            found[0] = (*found[0][:3], name, found[0][4])
        return found

    def gethostbyname(self, host: str) -> str:
        """As socket.gethostbyname; raise socket.gaierror."""
        return self.gethostbyname_ex(host)[2][0]

    def gethostbyname_ex(self, host: str) -> tuple[str, list[str], list[str]]:
        """As socket.gethostbyname_ex; raise socket.gaierror."""
        if host in NO_NAMES:
            return host, [], ["255.255.255.255" if host else "0.0.0.0"]
        found = self.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        return host, [], [each[4][0] for each in found]

    def gethostbyaddr(self, host: _Host) -> tuple[str, list[str], list[str]]:
        """As socket.gethostbyaddr; raise socket.gaierror or socket.herror."""
        name = _text(host)
        address: str = self.getaddrinfo(name, None, 0, socket.SOCK_STREAM)[0][4][0]
        if self.known(name) not in ("", name):
            return name, [], [address]
        if address in ("127.0.0.1", "::1"):
            return "localhost", [], [address]
        first, *others = self._names_of(address.partition("%")[0])
        return first, others, [address]

    def getnameinfo(self, sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:
        """As socket.getnameinfo; raise socket.gaierror."""
        host, port = sockaddr[:2]
        numeric = socket.AI_NUMERICHOST
        name = host = self.getaddrinfo(host, None, 0, socket.SOCK_STREAM, 0, numeric)[0][4][0]
        if not flags & socket.NI_NUMERICHOST:
            try:
                name = self.gethostbyaddr(host)[0]
            except socket.herror as error:
                if error.args == TRY_AGAIN or flags & socket.NI_NAMEREQD:
                    again = error.args == TRY_AGAIN
                    code = socket.EAI_AGAIN if again else socket.EAI_NONAME
                    raise socket.gaierror(code, glibc.AGAIN if again else glibc.NONAME) from None
        if not flags & socket.NI_NUMERICSERV:
            with suppress(OSError):
                protocol = "udp" if flags & socket.NI_DGRAM else "tcp"
                return name, socket.getservbyport(port, protocol)
        return name, str(port)

    def _names_of(self, address: str) -> list[str]:
        """The names of an address; raise socket.herror."""
        import dns.exception  # noqa: PLC0415 - few tests need it
        import dns.message  # noqa: PLC0415
        import dns.query  # noqa: PLC0415
        import dns.reversename  # noqa: PLC0415

        query = dns.message.make_query(dns.reversename.from_address(address), "PTR")
        for _ in range(2):  # glibc's attempts
            with suppress(dns.exception.DNSException, OSError):
                ask, (host, port) = dns.query.udp_with_fallback, self.server
                reply, _ = ask(query, host, timeout=PTR_TIMEOUT, port=port)
                if reply.rcode() in (Rcode.NOERROR, Rcode.NXDOMAIN):
                    break
        else:
            raise socket.herror(*TRY_AGAIN)
        found = [each for rrset in reply.answer for each in rrset if each.rdtype == RRType.PTR]
        if not found:
            raise socket.herror(*HOST_NOT_FOUND)
        return [each.target.to_text(omit_final_dot=True) for each in found]

    # addresses that libraries get

    def numbered(self, family: int, address: Any) -> Any:
        """The address of a socket with a number in place of a name; raise socket.gaierror."""
        if family in FAMILIES and isinstance(address, tuple):
            name = _text(address[0]) if address and isinstance(address[0], str | bytes) else ""
            if name not in NO_NAMES and not is_number(name):
                found = self.getaddrinfo(name, None, family, socket.SOCK_STREAM)
                return (found[0][4][0], *address[1:])
        return address

    def whole(self, name: str) -> str:
        """The first name of the search list that exists, or else the name, with its final dot."""
        found = forms(name, self._namespace)
        return next(filter(self._exists, found), name.removesuffix(".")) + "."


def _text(host: _Host) -> str:
    if host is None:
        return ""
    if isinstance(host, bytes):
        return host.decode("ascii", "replace")
    try:
        return host.encode("idna").decode()  # as socket.getaddrinfo does
    except UnicodeError:
        return host


# Rule 3

_standing: Final[list[PodResolver]] = []


def _refuse(what: str, instead: str) -> NoReturn:
    raise ClusterError(f"within patch(), {what} would query another DNS server; {instead}")


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse, as an audit hook, what would leave the machine."""
    if not _standing or not event.startswith("socket."):
        return
    word = event.removeprefix("socket.")
    if word in LOOKUPS:
        host = arguments[0]
        is_name = word in LOOKUPS[2:] or (
            host is not None and _text(host) not in NO_NAMES and not is_number(_text(host))
        )
        if is_name:
            _refuse(
                f"_socket.{word}({host!r}), which a module has kept from before,",
                f"let it call socket.{word}, or use a pod",
            )
    elif word in ("connect", "sendto", "sendmsg"):
        _check_server(arguments[1])


def _check_server(address: Any) -> None:
    """Refuse the address of another DNS server."""
    is_dns = isinstance(address, tuple) and address[1:2] and address[1] in DNS_PORTS
    if is_dns and address[:2] not in [each.server for each in _standing]:
        _refuse(f"a socket to {address[0]} port {address[1]}", "name none, or use cluster.address")


@cache
def _watch() -> None:
    sys.addaudithook(_guard)


# Rule 2: each takes the module that it changes


def _lead_dnspython(resolver: PodResolver, module: Any, stack: ExitStack) -> None:
    stack.enter_context(replaced.object(module, "default_resolver", None))
    if not hasattr(module, "BaseResolver"):
        return
    plain = module.BaseResolver.read_resolv_conf

    def read_resolv_conf(self: Any, file: Any) -> None:
        plain(self, io.StringIO(resolver.conf))
        host, self.port = resolver.server
        self.nameservers = [host]

    of = module.BaseResolver
    stack.enter_context(replaced.object(of, "read_resolv_conf", read_resolv_conf))


class _Changed:
    """An object with other methods: transports of uvloop take none, and Python does not see their datagrams."""

    def __init__(self, of: Any, **methods: Callable[..., Any]) -> None:
        self.__dict__ |= {"_of": of, **methods}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def _checked(transport: Any) -> Any:
    """A transport that sends no datagram to another DNS server."""

    def sendto(data: Any, addr: Any = None) -> None:
        _check_server(addr)
        transport.sendto(data, addr)

    return _Changed(transport, sendto=sendto)


def _lead_uvloop(resolver: PodResolver, module: Any, stack: ExitStack) -> None:
    """Its loop resolves names in compiled code, so it gets addresses."""
    plain = {each: getattr(module.Loop, each) for each in ("create_connection", "create_server")}
    endpoint = module.Loop.create_datagram_endpoint

    async def getaddrinfo(self: Any, *arguments: Any, **options: Any) -> Any:
        return await self.run_in_executor(None, partial(socket.getaddrinfo, *arguments, **options))

    async def getnameinfo(self: Any, sockaddr: Any, flags: int = 0) -> Any:
        return await self.run_in_executor(None, socket.getnameinfo, sockaddr, flags)

    async def numbers(loop: Any, host: Any, port: Any, options: Any) -> list[Any]:
        if not isinstance(host, str | bytes) or is_number(_text(host)):
            return [host]
        given = {each: options[each] for each in ("family", "proto", "flags") if each in options}
        found = await getaddrinfo(loop, host, port, type=socket.SOCK_STREAM, **given)
        return [each[4][0] for each in found]

    async def create_connection(
        self: Any, factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        if options.get("ssl") and host:
            options.setdefault("server_hostname", host)
        if local := options.get("local_addr"):
            options["local_addr"] = (
                (await numbers(self, local[0], local[1], options))[0],
                local[1],
            )
        *others, last = await numbers(self, host, port, options)
        _check_server((last, port))
        for each in others:
            with suppress(OSError):
                return await plain["create_connection"](self, factory, each, port, **options)
        return await plain["create_connection"](self, factory, last, port, **options)

    async def create_server(
        self: Any, factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        hosts = host if isinstance(host, list | tuple) else [host]
        found = [each for of in hosts for each in await numbers(self, of, port, options)]
        at = None if found == [None] else found
        return await plain["create_server"](self, factory, at, port, **options)

    async def create_datagram_endpoint(
        self: Any, factory: Any, local_addr: Any = None, remote_addr: Any = None, **options: Any
    ) -> Any:
        addresses = [
            each and ((await numbers(self, each[0], each[1], options))[0], *each[1:])
            for each in (local_addr, remote_addr)
        ]
        _check_server(addresses[1])

        def make() -> Any:
            made.append(factory())
            begin = made[0].connection_made
            return _Changed(made[0], connection_made=lambda transport: begin(_checked(transport)))

        made: list[Any] = []
        transport, _ = await endpoint(self, make, *addresses, **options)
        return _checked(transport), made[0]

    led = (getaddrinfo, getnameinfo, create_connection, create_server, create_datagram_endpoint)
    for each in led:
        stack.enter_context(replaced.object(module.Loop, each.__name__, each))


def _lead_pycares(resolver: PodResolver, module: Any, stack: ExitStack) -> None:
    of, led = module.Channel, weakref.WeakSet[Any]()
    make, servers = of.__init__, of.servers
    host, port = resolver.server
    conf = CAres.read(resolver.conf)

    def start(self: Any, **options: Any) -> None:
        given = options.pop("servers", None)
        made = {"domains": list(conf.search), "ndots": conf.ndots} | options
        make(self, **made | {"servers": [host], "udp_port": port, "tcp_port": port})
        led.add(self)
        if given:
            set_servers(self, given)

    def set_servers(self: Any, given: Any) -> None:
        if [*given] not in ([host], [f"{host}:{port}"]):
            _refuse(f"a channel of pycares with the servers {[*given]}", "leave them out")
        servers.fset(self, given)

    def checked(name: str) -> Callable[..., Any]:
        plain = getattr(of, name)

        def ask(self: Any, *arguments: Any, **options: Any) -> Any:
            if self not in led:
                _refuse("a channel of pycares from before", "make it within patch()")
            return plain(self, *arguments, **options)

        return ask

    asks = ("query", "search", "gethostbyname", "gethostbyaddr", "getaddrinfo", "getnameinfo")
    changes: dict[str, Any] = {each: checked(each) for each in asks if hasattr(of, each)}
    changes |= {"__init__": start, "servers": property(servers.fget, set_servers)}
    stack.enter_context(replaced.multiple(of, **changes))


# A target of gRPC that it looks up: [dns:[//SERVER/]]NAME[:PORT]
_TARGET: Final = re.compile(
    r"(?:dns:(?://(?P<server>[^/]*)/)?)?(?!(?:unix|ipv4|ipv6|vsock|xds|unix-abstract):)"
    r"(?P<name>[^:/\[\]]+)(?::(?P<port>\w+))?",
    re.IGNORECASE,
)
_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")  # that gRPC reads, in lower case only


def _lead_grpc(resolver: PodResolver, module: Any, stack: ExitStack) -> None:
    make = module.Channel.__init__

    def name_in(target: str) -> re.Match[str] | None:
        found = _TARGET.fullmatch(target)
        return None if found is None or is_number(found["name"]) else found

    def start(self: Any, target: Any, options: Any, *rest: Any, **named: Any) -> None:
        text = target.decode() if isinstance(target, bytes) else target
        found = name_in(text)
        for each in filter(os.environ.get, _PROXIES):
            if ("grpc.enable_http_proxy", 0) not in (options or ()):
                _refuse(f"gRPC's proxy for {text}", f"unset {each}")
        if found is not None:
            server = "{}:{}".format(*resolver.server)
            port = f":{found['port']}" if found["port"] else ""
            if os.environ.get("GRPC_DNS_RESOLVER", "").lower() == "native":
                _refuse(f"gRPC's native resolver for {text}", "unset GRPC_DNS_RESOLVER")
            if found["server"] not in (None, "", server):
                _refuse(f"a channel of gRPC to {text}", "name no server in it")
            known = resolver.known(found["name"])
            target = f"ipv4:{known}{port}" if known else ""
            target = target or f"dns://{server}/{resolver.whole(found['name'])}{port}"
            authority = ("grpc.default_authority", f"{found['name']}{port}")
            options = (authority, *(options or ()))
        make(self, target, options, *rest, **named)

    for each in gc.get_objects():
        if type(each) is module.Channel:
            with suppress(ValueError, module.cygrpc.UsageError):
                each._channel.check_connectivity_state(False)  # raises one of these if it is closed
                target = each._channel.target().decode()
                if name_in(target):
                    _refuse(
                        f"the channel of gRPC to {target} from before", "make it within patch()"
                    )
    stack.enter_context(replaced.object(module.Channel, "__init__", start))


def _lead_grpc_server(resolver: PodResolver, module: Any, stack: ExitStack) -> None:
    server = getattr(module, "_Server", None) or module.Server
    for name in ("add_insecure_port", "add_secure_port"):
        plain = getattr(server, name)

        def listen(self: Any, address: Any, *rest: Any, plain: Any = plain) -> Any:
            found = _TARGET.fullmatch(address.decode() if isinstance(address, bytes) else address)
            if found is not None and not resolver.known(found["name"]):
                _refuse(f"a server of gRPC at {found['name']}", "name its address")
            return plain(self, address, *rest)

        stack.enter_context(replaced.object(server, name, listen))


LIBRARIES: Final[dict[str, Callable[[PodResolver, Any, ExitStack], None]]] = {
    "dns.resolver": _lead_dnspython,
    "dns.asyncresolver": _lead_dnspython,
    "uvloop": _lead_uvloop,
    "pycares": _lead_pycares,
    "grpc._channel": _lead_grpc,
    "grpc.aio._channel": _lead_grpc,
    "grpc._server": _lead_grpc_server,
    "grpc.aio._server": _lead_grpc_server,
}


class _Later:
    """Finds a library that is imported within patch(), and leads it when it is there."""

    def __init__(self, lead: Callable[[str, Any], None]) -> None:
        self._lead = lead

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Find a module as without it."""
        spec = PathFinder.find_spec(name, path) if name in LIBRARIES else None
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self._lead(name, module)

            loader.exec_module = exec_module
        return spec


@contextmanager
def patched(resolver: PodResolver) -> Iterator[None]:
    """Use a resolver for all lookups of the process."""
    _watch()
    names = (*LOOKUPS, "gethostbyname_ex")
    led = {each: getattr(resolver, each) for each in names}
    # socket.getaddrinfo calls _socket's; the others of `socket` are those of `_socket`.
    own = [each for each in socket.socket.__mro__ if each.__module__ == "socket"]
    if not own:  # gevent's
        _refuse(f"{socket.socket.__module__}, whose sockets replace Python's,", "use a pod")
    of: Any = own[-1]
    with ExitStack() as stack:
        stack.enter_context(replaced.multiple(_socket, **led))
        del led["getaddrinfo"]
        stack.enter_context(replaced.multiple(socket, **led))
        for each in CONNECTS:
            stack.enter_context(replaced.object(of, each, _numbering(resolver, getattr(of, each))))
        for name, lead in LIBRARIES.items():
            if name in sys.modules:
                lead(resolver, sys.modules[name], stack)
        later: Any = _Later(lambda name, module: LIBRARIES[name](resolver, module, stack))
        sys.meta_path.insert(0, later)
        stack.callback(sys.meta_path.remove, later)
        _standing.append(resolver)
        stack.callback(_standing.remove, resolver)
        yield


def _numbering(resolver: PodResolver, plain: Callable[..., Any]) -> Callable[..., Any]:
    """A method of sockets that takes an address last, and looks up the name in it."""
    least = 4 if plain.__name__ == "sendmsg" else 1

    def call(sock: socket.socket, *arguments: Any) -> Any:
        if len(arguments) >= least:
            arguments = (*arguments[:-1], resolver.numbered(sock.family, arguments[-1]))
        return plain(sock, *arguments)

    return call
