"""Zone transfer from a primary (AXFR, RFC 5936), and the query for its serial.

Path: secondary_zone.py calls it and gets a Zone.
Source: CoreDNS 1.14.7 plugin/file secondary.go, miekg/dns xfr.go.
Rule 1: both use TCP; each message must arrive within TIMEOUT of the previous one.
Rule 2: messages are decoded in a thread: one of 64 KB takes tens of milliseconds.
Rule 3: a transfer is complete if it begins and ends with the same SOA record.  Records outside of the zone are ignored.

NOTIFY messages to secondaries (RFC 1996):
Source: CoreDNS 1.14.7 plugin/transfer notify.go: up to three attempts over UDP, until the reply is NOERROR.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import dns.exception
import dns.message

from hsdns.authority.master_file import to_rr
from hsdns.authority.zone import Zone, ZoneError, serial_of
from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.upstream.connection import UdpConnection, describe, time_limit
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.framing import frame
from hsdns.wire.iana import Opcode, Rcode, RRType, rcode_to_text
from hsdns.wire.message import AA, RR, Query
from hsdns.wire.name import Name

TIMEOUT: Final = 2.0  # seconds to connect, and for each message (miekg/dns)
MAX_RECORDS: Final = 10_000_000  # limit for a primary that never stops sending


class TransferError(Exception):
    """A primary did not provide the zone; the message begins with its address."""


async def primary_serial(origin: Name, primary: Endpoint) -> int:
    """Return a primary's serial of a zone; raise TransferError."""
    async with _querying(primary, Query.ask(origin, RRType.SOA)) as messages:
        async for rcode, answer in messages:
            for record in answer:
                if record.rrtype == RRType.SOA:
                    return serial_of(record)
            raise TransferError(f"it replied {rcode_to_text(rcode)} without a SOA record")
    raise TransferError(f"{HostPort(*primary)} sent no reply")


async def fetch_zone(origin: Name, primary: Endpoint) -> tuple[Zone, tuple[RR, ...]]:
    """Transfer a zone from a primary; return it and its records; raise TransferError."""
    records: list[RR] = []
    async with _querying(primary, Query.ask(origin, RRType.AXFR, flags=0)) as messages:
        async for rcode, answer in messages:
            if rcode != Rcode.NOERROR:
                raise TransferError(f"it replied {rcode_to_text(rcode)}")
            records += answer
            if not records or records[0].rrtype != RRType.SOA:
                raise TransferError("its transfer does not begin with a SOA record")
            if len(records) > 1 and records[-1].rrtype == RRType.SOA:
                break
            if len(records) > MAX_RECORDS:
                raise TransferError(f"its transfer has more than {MAX_RECORDS} records")
        first, last = records[0], records[-1]
        if (first.owner, first.rdata) != (last.owner, last.rdata) or first.owner != origin:
            raise TransferError("its transfer does not end with the SOA record that it began with")
        records = [record for record in records if record.owner.is_at_or_below(origin)]
        try:
            return await asyncio.to_thread(Zone, origin, records), tuple(records)
        except (ZoneError, IndexError) as error:
            raise TransferError(f"its zone cannot be served: {error}") from None


@asynccontextmanager
async def _querying(
    primary: Endpoint, query: Query
) -> AsyncIterator[AsyncIterator[tuple[int, list[RR]]]]:
    """Connect and send the query; raise TransferError with the primary's address for any error."""
    where = HostPort(*primary)
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection(*primary)
        query_id = secrets.randbits(16)
        writer.write(frame(encode_query(query, query_id)))
        yield _messages(reader, query_id)
    except TimeoutError:
        raise TransferError(f"{where} did not reply within {TIMEOUT:g}s") from None
    except asyncio.IncompleteReadError:
        raise TransferError(f"{where} closed the connection before the end") from None
    except OSError as error:
        raise TransferError(f"{where} cannot be reached: {error.strerror or error}") from None
    except TransferError as error:
        raise TransferError(f"{where}: {error}") from None
    finally:
        if writer is not None:
            writer.close()


async def _messages(
    reader: asyncio.StreamReader, query_id: int
) -> AsyncIterator[tuple[int, list[RR]]]:
    """Yield rcode and answer section of each message, decoded by dnspython."""
    while True:
        async with time_limit(TIMEOUT):
            length = int.from_bytes(await reader.readexactly(2), "big")
            wire = await reader.readexactly(length)
        try:
            found = await asyncio.to_thread(_decode, wire, query_id)
        except (dns.exception.DNSException, ValueError) as error:
            raise TransferError(f"it sent a malformed message: {error}") from None
        yield found


def _decode(wire: bytes, query_id: int) -> tuple[int, list[RR]]:
    """Return rcode and answer section of a message."""
    message = dns.message.from_wire(wire, one_rr_per_rrset=True)
    if message.id != query_id or not message.flags & dns.flags.QR:
        raise TransferError("its reply has another question than the query")
    records = [to_rr(each.name, each.ttl, rdata) for each in message.answer for rdata in each]
    return int(message.rcode()), records


ATTEMPTS: Final = 3
NOTIFY_TIMEOUT: Final = 2.0  # seconds for each attempt


async def send_notify(zone: Name, target: Endpoint, source: str | None = None) -> str | None:
    """Send a NOTIFY; return None if it was accepted, else an error message."""
    query = Query.ask(zone, RRType.SOA, flags=Opcode.NOTIFY << 11 | AA)
    reason = ""
    for _ in range(ATTEMPTS):
        connection: UdpConnection | None = None
        try:
            async with time_limit(NOTIFY_TIMEOUT):
                _, connection = await asyncio.get_running_loop().create_datagram_endpoint(
                    UdpConnection,
                    local_addr=(source, 0) if source is not None else None,
                    remote_addr=target,
                )
                wire = await connection.ask(encode_query(query, secrets.randbits(16)))
            reply = decode_reply(wire, query)
        except TimeoutError:
            reason = f"it did not reply within {NOTIFY_TIMEOUT:g}s"
        except OSError as error:
            reason = f"it {describe(error)}"
        except BadReply as error:
            reason = str(error)
        else:
            if reply.rcode == Rcode.NOERROR:
                return None
            reason = f"it replied {rcode_to_text(reply.rcode)}"
        finally:
            if connection is not None:
                connection.close()
    return f"NOTIFY for zone {zone.to_text()} was not accepted by {HostPort(*target)}: {reason}"
