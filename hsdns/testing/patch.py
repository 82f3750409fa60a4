"""Makes Python's own resolver query a test's cluster: socket.getaddrinfo and related functions.

Path: cluster.patch() -> here -> a model of resolver/, whose packets cli/resolve_server.py sends to the server.
Rule 1: the machine still resolves addresses, `localhost` and its own name, which are in a pod's /etc/hosts; all other
        names are looked up with the search list of a pod.
Rule 2: asyncio's loop, trio and aiohttp's ThreadedResolver call socket.getaddrinfo, so they need no change; aiohttp's
        AsyncResolver has its own resolver and is replaced too.  uvloop resolves names in compiled code: it needs a pod.
Rule 3: at the end, all functions are restored.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from random import Random
from typing import Any, Final
from unittest.mock import patch as replaced

from hsdns.cli.resolve_server import server_steps
from hsdns.resolver import glibc, musl
from hsdns.resolver.model import Ended, Model, Result
from hsdns.testing.errors import hides, unknown
from hsdns.testing.names import is_address, resolv_conf
from hsdns.wire.iana import RRType

# A failed lookup has a traceback without lines of this module, like a failure of the C library.
__tracebackhide__ = lambda raised: hides(raised) or isinstance(raised.value, socket.gaierror)  # noqa: E731 - a value

# The machine's own names, and names that resolvers never query.
LOCAL: Final = ("", "localhost", "localhost.localdomain", "ip6-localhost")
FAMILIES: Final = {socket.AF_INET: (RRType.A,), socket.AF_INET6: (RRType.AAAA,)}
# The C libraries, whose getaddrinfo Python calls.
MODELS: Final[dict[str, type[Model]]] = {each.name: each for each in (glibc.Glibc, musl.Musl)}
CODES: Final = {
    glibc.AGAIN: socket.EAI_AGAIN,
    glibc.NODATA: socket.EAI_NODATA,
    musl.AGAIN: socket.EAI_AGAIN,
    musl.NODATA: socket.EAI_NODATA,
}  # all others are EAI_NONAME
_Host = bytes | str | None


class PodResolver:
    """Looks up names as a program in a pod does; `find_server` returns the server's address and port."""

    def __init__(
        self, find_server: Callable[[], tuple[str, int]], namespace: str, resolver: str
    ) -> None:
        if resolver not in MODELS:
            raise unknown("there is no model of a resolver", resolver, MODELS)
        self._find_server = find_server
        self._model = MODELS[resolver]
        self._conf = resolv_conf(namespace)
        self._machine = socket.getaddrinfo
        self._own_name = socket.gethostname()

    def getaddrinfo(
        self,
        host: _Host,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as in socket.getaddrinfo
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """As socket.getaddrinfo; raise socket.gaierror."""
        name = _text(host)
        if self._is_local(name) or flags & socket.AI_NUMERICHOST:
            return self._machine(host, port, family, type, proto, flags)
        types = FAMILIES.get(socket.AddressFamily(family), (RRType.A, RRType.AAAA))
        found: list[Any] = []
        for address in self._look_up(name, types):
            numeric = flags & ~(socket.AI_CANONNAME | socket.AI_ADDRCONFIG) | socket.AI_NUMERICHOST
            found += self._machine(address, port, family, type, proto, numeric)
        if flags & socket.AI_CANONNAME and found:
            found[0] = (*found[0][:3], name, found[0][4])
        return found

    def gethostbyname(self, host: str) -> str:
        """As socket.gethostbyname; raise socket.gaierror."""
        found: str = self.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
        return found

    def gethostbyname_ex(self, host: str) -> tuple[str, list[str], list[str]]:
        """As socket.gethostbyname_ex; raise socket.gaierror."""
        found = self.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        return host, [], [each[4][0] for each in found]

    def _is_local(self, name: str) -> bool:
        plain = name.lower().removesuffix(".")
        return (
            plain in LOCAL or plain == self._own_name.lower() or is_address(name.partition("%")[0])
        )

    def _look_up(self, name: str, types: tuple[int, ...]) -> tuple[str, ...]:
        result = Result((), glibc.NONAME, "")
        model = self._model(self._conf, Random())
        with suppress(ValueError):  # the name cannot be in a query
            for step in server_steps(model, name, types, self._find_server(), Random()):
                if isinstance(step, Ended):
                    result = step.result
        if not result.addresses:
            raise socket.gaierror(CODES.get(result.error, socket.EAI_NONAME), result.error)
        return result.addresses


@contextmanager
def patched(resolver: PodResolver) -> Iterator[None]:
    """Use a resolver for all lookups of the process."""
    names = ("getaddrinfo", "gethostbyname", "gethostbyname_ex")
    with replaced.multiple(socket, **{name: getattr(resolver, name) for name in names}):
        # Without aiodns aiohttp has only the resolver that calls getaddrinfo, and may not be loaded at all.
        if "aiohttp" not in sys.modules and find_spec("aiodns") is None:
            yield
            return
        from aiohttp.resolver import AsyncResolver, ThreadedResolver  # noqa: PLC0415 - it takes 0.1 s

        async def resolve(
            self: object, host: str, port: int = 0, family: int = socket.AF_INET
        ) -> Any:
            return await ThreadedResolver().resolve(host, port, socket.AddressFamily(family))

        with replaced.object(AsyncResolver, "resolve", resolve):
            yield


def _text(host: _Host) -> str:
    if host is None:
        return ""
    if isinstance(host, bytes):
        return host.decode("ascii", "replace")
    try:
        return host.encode("idna").decode()  # as socket.getaddrinfo does
    except UnicodeError:
        return host
