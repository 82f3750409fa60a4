"""Models of how programs look names up: glibc, musl, Go, c-ares, dnspython, JNDI, nginx, and programs that use them.

Path: resolver/cli.py -> here; nothing of the path of a query uses it.  forwarders/ has what passes queries on.
Rule 1: no sockets and no clocks: a model returns packets and takes answers, and the time is an argument.
Rule 2: a model sends the packets that the program was measured to send (tests/resolver/test_traces.py); docs/resolve.md
        lists behaviour that was not measured.
Rule 3: MODELS is the only list of programs; all commands have its names.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from hsdns.resolver.cares import CAres
from hsdns.resolver.dnspython import Dnspython, MongoDb
from hsdns.resolver.forwarders import FORWARDERS
from hsdns.resolver.forwarders.forwarder import NOTHING, Between
from hsdns.resolver.glibc import Glibc
from hsdns.resolver.go import Go
from hsdns.resolver.hickory import Hickory
from hsdns.resolver.jndi import Jndi
from hsdns.resolver.model import Model
from hsdns.resolver.musl import Musl, Nslookup, OldMusl
from hsdns.resolver.netty import Netty
from hsdns.resolver.nginx import Nginx, NginxValid
from hsdns.resolver.programs import (
    DotNet,
    Envoy,
    EnvoyLogical,
    EnvoyTtl,
    GrpcCore,
    GrpcGo,
    GrpcJava,
    Java,
    NginxStart,
    NodeFetch,
    NodeLookup,
    NodeResolve,
    PythonSocket,
)
from hsdns.wire.iana import ADDRESSES, RRType

MODELS: Final[dict[str, type[Model]]] = {
    model.name: model
    for model in (
        Glibc, Musl, OldMusl, Go, CAres, NodeLookup, NodeFetch, NodeResolve, PythonSocket, Dnspython, MongoDb, Java,
        Jndi, Netty, DotNet, Nginx, NginxValid, NginxStart, Envoy, EnvoyTtl, EnvoyLogical, GrpcGo, GrpcCore, GrpcJava,
        Hickory, Nslookup,
    )
}  # fmt: skip
USUAL: Final = ("glibc", "musl", "go", "c-ares")  # the default
_USUAL_OF: Final = {RRType.PTR: ("glibc", "musl", "go", "node-resolve")}
_OTHER: Final = ("go", "dnspython", "node-resolve", "jndi")  # that look up other types


def usual(types: Sequence[int]) -> tuple[str, ...]:
    """The programs that are shown without a choice, which look up these types."""
    addresses = ADDRESSES
    return USUAL if {*types} <= {*addresses} else _USUAL_OF.get(types[0], _OTHER)


def model_of(program: str, text: str, random: Random, through: Between = NOTHING) -> Model:
    """The model of a program with a resolv.conf, or of a forwarder and the program."""
    if not through.name:
        return MODELS[program](text, random)
    forwarder, seen = FORWARDERS[through.name], text
    if not forwarder.captures:  # it is the only nameserver
        lines = text.splitlines(keepends=True)
        servers = [each for each in lines if each.split()[:1] == ["nameserver"]]
        seen = "".join(each for each in lines if each not in servers[1:])
    own = MODELS[program](seen, random)
    return forwarder(through.text or text, random, own, through)


def looks_up(name: str, types: Sequence[int]) -> bool:
    """Whether a program looks up these types."""
    return not MODELS[name].types or {*types} <= {*MODELS[name].types}
