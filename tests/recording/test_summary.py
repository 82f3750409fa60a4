"""What is in a recording."""

from __future__ import annotations

from pathlib import Path

from hsdns.recording.entry import Entry, Gap, State
from hsdns.recording.reader import Summary, summarise
from tests.recording.recorded import HEADER, query, recorded, to_octets
from tests.support.cluster.objects import deletes, service, upserts

WEB = service("shop/web", "10.96.7.7")


def test_summary(tmp_path: Path) -> None:
    path = tmp_path / "shop.rec"
    entries: list[Entry] = [
        query(0.0),
        *recorded(upserts(WEB), [deletes(WEB), upserts(WEB)])[:-1],
        Gap(3.0, "", 7),
        State(4.5, "", 0, serves=True),
        query(60.0),
    ]
    path.write_bytes(to_octets(entries))
    problem = f"{path} has no end after line 9: its recorder was killed, or the file was cut"
    assert summarise(str(path)) == Summary(HEADER.began, 4.5, 3, 7, problem)
