"""NOTIFY messages to secondaries (RFC 1996).

Path: plugins/transfer.py sends one to each secondary, at the start and when a zone changes.
Source: CoreDNS 1.14.7 plugin/transfer notify.go: up to three attempts over UDP, until the reply is NOERROR.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from hsdns.chain import Endpoint
from hsdns.corefile.keys import HostPort
from hsdns.upstream.connection import UdpConnection, describe, time_limit
from hsdns.wire.decode import BadReply, decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Opcode, Rcode, RRType, rcode_to_text
from hsdns.wire.message import AA, Query
from hsdns.wire.name import Name

ATTEMPTS: Final = 3
TIMEOUT: Final = 2.0  # seconds for each attempt


async def send_notify(zone: Name, target: Endpoint, source: str | None = None) -> str | None:
    """Send a NOTIFY; return None if it was accepted, else an error message."""
    query = Query.ask(zone, RRType.SOA, flags=Opcode.NOTIFY << 11 | AA)
    reason = ""
    for _ in range(ATTEMPTS):
        connection: UdpConnection | None = None
        try:
            async with time_limit(TIMEOUT):
                _, connection = await asyncio.get_running_loop().create_datagram_endpoint(
                    UdpConnection,
                    local_addr=(source, 0) if source is not None else None,
                    remote_addr=target,
                )
                wire = await connection.ask(encode_query(query, secrets.randbits(16)))
            reply = decode_reply(wire, query)
        except TimeoutError:
            reason = f"it did not reply within {TIMEOUT:g}s"
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
