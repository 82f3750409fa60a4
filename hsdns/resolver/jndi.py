"""The DNS client of the JDK, as JNDI uses it: `dns:` URLs of Java programs, also for SRV records.

Path: model.look_up() -> here.
Source: measured with OpenJDK 17; com/sun/jndi/dns/DnsClient.java.
Rule 1: the servers are asked in turn, four times, each time for twice as long; the resolv.conf has no options for it.
Rule 2: a server that answers with an error is not asked again.
Rule 3: names are not looked up through the search list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hsdns.resolver.model import Model, Result, Waiting, found_at
from hsdns.resolver.resolv_conf import Reader
from hsdns.wire.iana import Rcode

ROUNDS: Final = 4
NODATA: Final = "no records"  # without an exception
TIMEOUT: Final = "CommunicationException DNS error"
NOT_FOUND: Final = "NameNotFoundException DNS name not found [response code 3]"
ERRORS: Final = {
    Rcode.FORMERR: "NamingException DNS format error [response code 1]",
    Rcode.SERVFAIL: "ServiceUnavailableException DNS server failure [response code 2]",
    Rcode.NOTIMP: "OperationNotSupportedException DNS operation not supported [response code 4]",
    Rcode.REFUSED: "OperationNotSupportedException DNS service refused [response code 5]",
}
READER: Final = Reader("JNDI", {}, most_servers=1 << 30, searches=False, numbers=())


class Jndi(Model):
    """JNDI of OpenJDK 17, measured."""

    name = "jndi"
    reader = READER
    used_by = "Java's dns: URLs, such as those of SRV records"

    def lookup(self, name: str, types: Sequence[int]) -> Waiting:
        """Ask for one type, A of both families."""
        rrtype, qid, error = types[0], self.new_qid(), ""
        servers = list(range(len(self.conf.nameservers)))
        for number in range(ROUNDS):
            for server in servers[:]:
                wait = 1 << number
                answer = yield from self.exchange("udp", server, qid, rrtype, name, self.now + wait)
                if answer is None:
                    error = error or TIMEOUT
                    continue
                at = servers.index(server)
                for other in servers[at:] + servers[:at] if answer.tc else ():
                    whole = yield from self.exchange(
                        "tcp", other, qid, rrtype, name, self.now + wait
                    )
                    if whole is not None and not whole.rcode and not whole.is_closed:
                        answer = whole
                        break
                if answer.addresses:
                    return found_at(name, answer.addresses, [rrtype])
                if answer.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN):
                    error = NOT_FOUND if answer.rcode else NODATA
                    return Result((), error, f"{name}: {error}")
                error = error or ERRORS.get(answer.rcode, TIMEOUT)
                servers.remove(server)
        return Result((), error, f"{name}: {error}")
