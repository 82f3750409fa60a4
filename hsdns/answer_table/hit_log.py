"""The query log's lines about what an answer table has answered.

Path: beside step 2; server/answer_tables.py takes records from the table at intervals and gives them to write().
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hsdns.answer_table.policy import BlockPolicy
from hsdns.block_choice import BlockChoice
from hsdns.chain import Endpoint, Request
from hsdns.fastpath import LogRecord
from hsdns.wire.decode import decode

# A block whose log shows the address that was asked has no answer table.
_UNKNOWN: Final = Endpoint("", 0)


class HitLog:
    """The log of one table; `is_wanted` says whether any block logs what the table answers."""

    def __init__(
        self, server: str, blocks: BlockChoice[BlockPolicy], policies: Iterable[BlockPolicy]
    ) -> None:
        self._server = server
        self._blocks = blocks
        self.is_wanted = any(policy.log is not None and not policy.reason for policy in policies)

    def write(self, records: Sequence[LogRecord], endpoint: Callable[[bytes], Endpoint]) -> None:
        """Write the lines of hits; `endpoint` reads a socket address."""
        for record in records:
            query = decode(record.query)
            found = self._blocks.match(query.qname, query.qtype)
            policy = found.block if found is not None else None
            if found is None or policy is None or policy.log is None:
                continue
            request = Request(
                policy.lower_payload(query),
                endpoint(record.address),
                _UNKNOWN,
                "tcp" if record.is_tcp else "udp",
                self._server,
                found.zone,
                0.0,
            )
            policy.log.log_hit(request, record)
