"""Waits for answers of the server of a test's cluster; these queries are not recorded.

Path: cluster.py -> here -> server.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.resolver.model import Answer, Packet, answer_of, wire_of
from hsdns.testing.errors import ClusterError, hides
from hsdns.testing.names import NAMESPACE, forms, is_address
from hsdns.wire.iana import Rcode, RRType, rcode_to_text

__tracebackhide__ = hides

POLL: Final = 0.001  # seconds between two queries


def wait_answer(
    ask: Callable[[bytes], bytes | None],
    name: str,
    addresses: Sequence[str],
    within: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until `name` has these addresses, in any order; raise AssertionError after `within` seconds."""
    __tracebackhide__ = True  # pytest shows the line of the test
    for each in addresses:
        if not is_address(each):
            raise ClusterError(
                f'wait_answer() takes the addresses to wait for, and "{each}" is none'
            )
    wanted = sorted(addresses)
    types = [
        rrtype
        for rrtype, mark in ((RRType.A, "."), (RRType.AAAA, ":"))
        if any(mark in each for each in addresses)
    ] or [RRType.A, RRType.AAAA]
    deadline = clock() + within
    while True:
        found, said = _look_up(ask, name, types)
        if sorted(found) == wanted:
            return
        if clock() >= deadline:
            raise AssertionError(
                f"{name} has not {' '.join(wanted) or 'lost its addresses'} within {within:g} s; "
                f"{said}{': ' + ' '.join(sorted(found)) if found else ''}"
            )
        sleep(POLL)


def _look_up(
    ask: Callable[[bytes], bytes | None], name: str, types: Sequence[int]
) -> tuple[list[str], str]:
    """The addresses of the first form of a name that exists, and a sentence about it."""
    tried: list[str] = []
    for form in forms(name, NAMESPACE):
        answers = [_answer(ask, form, rrtype) for rrtype in types]
        found = [address for each in answers for address in each.addresses]
        if all(each.rcode == Rcode.NOERROR for each in answers):
            return found, f"{form} has {'these' if found else 'no address'}"
        tried.append(f"{form} {rcode_to_text(answers[0].rcode)}")
    return [], f"no name exists: {', '.join(tried)}"


def _answer(ask: Callable[[bytes], bytes | None], name: str, rrtype: int) -> Answer:
    packet = Packet(0.0, "tcp", 0, "t1", 1, rrtype, name)
    try:
        reply = ask(wire_of(packet, 1))
    except ValueError as error:
        raise ClusterError(f'"{name}" is not a name that can be looked up: {error}') from None
    return Answer(Rcode.SERVFAIL) if reply is None else answer_of(reply, packet)
