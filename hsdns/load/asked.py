"""A query that is sent over connections, and its result from a connection.

Path: stream_sender.py makes it -> pool.py, session.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from hsdns.load.connection import Connection

TRIES: Final = 3  # connections that may end while a query waits


class Asked:
    """A query: its octets without the ID, the number of its question, when it was due and when it was taken.

    Times are nanoseconds.  `connection` is where it waits, under `key` once it is sent (-1: not yet); `is_over` once it
    was answered or given up.
    """

    __slots__ = (
        "connection", "is_over", "key", "octets", "planned", "question", "sent", "tries",
    )  # fmt: skip

    def __init__(self, octets: bytes, question: int, planned: int, sent: int) -> None:
        self.octets = octets
        self.question = question
        self.planned = planned
        self.sent = sent
        self.tries = 0
        self.connection: Connection | None = None
        self.key = -1
        self.is_over = False


class Heard(NamedTuple):
    """The result of a query on a connection: its reply with any ID, or none for the reason `why`.

    `asked` None: a reply that no query waits for.  `why` "": the server has not processed the query.
    """

    asked: Asked | None
    message: bytes | None
    why: str = ""
