"""What becomes of a connection: of TCP, and of TLS and HTTPS inside of it.

Path: words.py makes them -> server/faulty_connection.py asks the rules when a client connects, and does it.
Rule 1: a rule decides once, when a client connects, so it knows no name and no type.  Open connections are left alone.
Rule 2: `refuse` and `hang` come before a TLS handshake, `slow` and `reset` are about replies inside of TLS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from hsdns.faults.action import Action
from hsdns.faults.asked import UNKNOWN, Asked
from hsdns.faults.selector import Selector

STREAMS: Final = ("tcp", "dot", "doh")
SELECTORS: Final = (
    "client", "pod", "asked", "listener", "transport", "share", "nth", "after", "before",
)  # fmt: skip


class ConnectionAction(Action):
    """An action that is done to connections."""

    about: ClassVar[str] = "connection"
    in_corefile: ClassVar[bool] = False

    def fits(self, asked: Asked) -> bool:
        return asked.transport in (*STREAMS, UNKNOWN)

    def misfit(self, selector: Selector) -> str:
        return foreign_selector(self.text, "when a client connects", selector, SELECTORS)


class Refuse(ConnectionAction):
    """Reset the connection as soon as it is accepted."""

    text = "refuse"
    replaces = True


class Hang(ConnectionAction):
    """Accept the connection and never send anything."""

    text = "hang"
    replaces = True


class Slow(ConnectionAction):
    """Send so many octets of replies a second."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.text = f"slow {rate}"


class Reset(ConnectionAction):
    """Reset the connection after so many octets of replies; None: after half of what is sent first."""

    replaces = True

    def __init__(self, octets: int | None) -> None:
        self.octets = octets
        self.text = "reset" if octets is None else f"reset {octets}"


def foreign_selector(text: str, when: str, selector: Selector, known: Sequence[str]) -> str:
    """That an action has none of a kind of selector, which is asked for something else; empty if it has all."""
    words = [part.text.split()[0] for part in selector.parts()]
    foreign = next((word for word in words if word not in known), "")
    if not foreign:
        return ""
    return f'"{text.split()[0]}" is decided {when}, so it has no "{foreign}"; it has {", ".join(known)}'
