"""Lookup of the addresses of upstreams given by host name.

Path: plugins/forward.py calls it once at the start; -validate never does.
Source: CoreDNS 1.14.7 plugin/forward resolve.go.
Rule 1: without `resolver` the resolver of this host is used.  If that is this server itself, the lookup fails, because
        its sockets are not open yet.
Rule 2: with `resolver` its servers are queried in order until one has an address; A addresses come before AAAA.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from hsdns.upstream.connection import TCP, UDP, connect, describe, time_limit
from hsdns.upstream.target import HostTarget, Target
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRType, rcode_to_text
from hsdns.wire.message import Query, Reply
from hsdns.wire.name import Name

ASK_TIMEOUT: Final = 2.0  # seconds; plugin/forward resolve.go
SYSTEM_TIMEOUT: Final = 15.0  # seconds: timeout times attempts of resolv.conf(5), for three servers


async def find_targets(
    targets: Sequence[Target | HostTarget], resolvers: Sequence[Target] = ()
) -> list[Target]:
    """Replace host names by their addresses, without duplicates; raise CorefileError if a name has none."""
    found: dict[str, Target] = {}
    for target in targets:
        if isinstance(target, Target):
            found.setdefault(str(target), target)
            continue
        try:
            addresses = await _lookup(target.host, resolvers)
        except OSError as error:
            raise target.position.error(
                f'cannot resolve "{target.host}": {error.strerror or error}; write an address, or use another '
                "resolver"
            ) from None
        for address in addresses:
            found.setdefault(str(target.at(address)), target.at(address))
    return list(found.values())


async def _lookup(host: str, resolvers: Sequence[Target]) -> list[str]:
    """Return all addresses of a host, at least one; raise OSError."""
    if not resolvers:
        return await _lookup_here(host)
    reason = ""
    for resolver in resolvers:
        addresses = []
        for rrtype in (RRType.A, RRType.AAAA):
            try:
                reply = await _ask(resolver, Name.from_text(host.removesuffix(".") + "."), rrtype)
            except OSError as error:
                reason = error.strerror or str(error)
                break
            addresses += [str(ip_address(rr.rdata)) for rr in reply.answer if rr.rrtype == rrtype]
            reason = f"{resolver} has no address for it ({rcode_to_text(reply.rcode)})"
        if addresses:
            return addresses
    raise OSError(0, reason)


async def _lookup_here(host: str) -> list[str]:
    try:
        async with asyncio.timeout(SYSTEM_TIMEOUT):
            found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except TimeoutError:
        raise OSError(
            0, f"the resolver of this host did not reply within {SYSTEM_TIMEOUT:g}s"
        ) from None
    return [str(address[0]) for *_, address in found]


async def _ask(resolver: Target, qname: Name, rrtype: int) -> Reply:
    """Query over UDP, and over TCP if the reply is truncated; raise OSError."""
    query = Query.ask(qname, rrtype)
    reply = Reply(tc=True)
    for protocol in (UDP, TCP):
        if not reply.tc:
            break
        try:
            async with time_limit(ASK_TIMEOUT):
                connection = await connect(protocol, resolver, None)
                try:
                    wire = await connection.ask(encode_query(query, secrets.randbits(16)))
                finally:
                    connection.close()
            reply = decode_reply(wire, query)
        except TimeoutError:
            raise OSError(0, f"{resolver} did not reply within {ASK_TIMEOUT:g}s") from None
        except BadReply as error:
            raise OSError(0, f"{resolver} sent a malformed reply: {error}") from None
        except OSError as error:
            raise OSError(0, f"{resolver} {describe(error)}") from None
    return reply
