"""The actions on connections: TCP, and TLS and HTTPS over TCP.

Path: words.py creates them -> server/faulty_connection.py evaluates the rules when a client connects, and applies them.
Rule 1: a rule is evaluated once, when a client connects, so no name or type is known.  Open connections are not
        affected.
Rule 2: `refuse` and `hang` act before a TLS handshake, `slow` and `reset` on replies inside TLS.
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
    """An action on connections."""

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
    """Limit replies to a number of octets a second."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.text = f"slow {rate}"


class Reset(ConnectionAction):
    """Reset the connection after a number of octets of replies; None: after half of the first data that is sent."""

    replaces = True

    def __init__(self, octets: int | None) -> None:
        self.octets = octets
        self.text = "reset" if octets is None else f"reset {octets}"


def foreign_selector(text: str, when: str, selector: Selector, known: Sequence[str]) -> str:
    """Return an error if a selector cannot be used with an action, "" if all parts can."""
    words = [part.text.split()[0] for part in selector.parts()]
    foreign = next((word for word in words if word not in known), "")
    if not foreign:
        return ""
    return f'"{text.split()[0]}" is decided {when}, so it has no "{foreign}"; it has {", ".join(known)}'
