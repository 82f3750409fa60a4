"""Lists all names of the kubernetes blocks, with their records: /v1/names.

Path: routes.py -> here -> cluster/answer_set.py.
Rule: one line for each RRset, and at the end one sentence for each kind of name that cannot be listed.  If something
      makes the list incomplete, a line with `problem` says what.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from hsdns.cluster.answer_set import RRset, texts, to_object
from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, kubernetes_blocks, to_line
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

PIECE: Final = 16_384  # octets in one write
RECORDS: Final = 100  # RRsets that are formatted at a time


async def names(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """List the names."""
    instance, turn = door.serving(), Turn(door.clock)
    blocks = kubernetes_blocks(instance)
    if not blocks:
        path = instance.configuration.corefile.path
        raise HttpRefusal(
            404, f"{path}: there is no kubernetes block, so there are no names to list"
        )
    written = bytearray()
    open_ended: dict[str, None] = {}
    for block in blocks:
        zones = " ".join(zone.to_text() for zone in block.zones)
        if not block.store.serves:
            written += to_line(
                {"problem": f"kubernetes {zones}: the cluster has not been read yet"}
            )
            continue
        if remark := block.remark():
            written += to_line({"problem": f"kubernetes {zones}: {remark}"})
        answer_set = block.answer_set()
        open_ended |= dict.fromkeys(answer_set.open_ended())
        for zone in block.zones:
            for rrset in answer_set.pieces_of_zone(zone):
                if rrset:
                    written += await _line(zone, rrset, turn)
                await turn.end_if_long()
                if len(written) >= PIECE:
                    yield bytes(written)
                    written.clear()
    for sentence in open_ended:
        written += to_line({"open_ended": sentence})
    if written:
        yield bytes(written)


async def _line(zone: Name, rrset: RRset, turn: Turn) -> bytes:
    records = []
    for number, text in enumerate(texts(rrset), 1):
        records.append(text)
        if number % RECORDS == 0:
            await turn.end_if_long()
    return to_line(to_object(zone, rrset, records))
