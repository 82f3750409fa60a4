"""What readers of dnstap get: one that hsdns connects to, and one that connects to hsdns."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from io import BytesIO
from pathlib import Path

import pytest

from hsdns.load.captures.dnstap import read_dnstap
from hsdns.load.schedule import SECOND
from hsdns.plugins import dnstap
from hsdns.wire.dnstap import Control, control
from hsdns.wire.encode import encode_query
from tests.support.coroutines.event_loops import until
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up


async def read(reader: StreamReader, writer: StreamWriter) -> bytes:
    """All that a reader gets that greets as it should."""
    writer.write(control(Control.ACCEPT))
    found = await reader.read()
    writer.close()
    return found


@pytest.mark.sockets
async def test_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dnstap, "PAUSE", 0.001)
    runtime, ends = FakeRuntime(), []
    plugin = set_up(
        dnstap.Dnstap, f"dnstap {tmp_path}/out full\ndnstap listen unix://{tmp_path}/in"
    )
    request = make_request("www.example.org.", client="192.0.2.7")
    answering = next_with(reply(["www.example.org. 60 IN A 192.0.2.1"]))
    await plugin.start(runtime)
    await plugin.handle(request, answering)
    await until(lambda: any("Dropped" in each.msg for each in caplog.records), "a report")
    assert "plugin/dnstap: Dropped dnstap messages: 2" in caplog.messages

    async def accept(reader: StreamReader, writer: StreamWriter) -> None:
        ends.append(asyncio.ensure_future(read(reader, writer)))

    async with await asyncio.start_unix_server(accept, f"{tmp_path}/out"):
        await accept(*await asyncio.open_unix_connection(f"{tmp_path}/in"))
        await until(
            lambda: [each.greeted for tap in plugin.taps for each in tap._readers] == [True] * 2,
            "two readers",
        )
        await plugin.handle(request, answering)
        await plugin.stop()
        found = [await end for end in ends]
    asked, query = (1_700_000_000 * SECOND, bytes((192, 0, 2, 7))), request.query
    expected = [[(*asked, octets), None] for octets in (b"", encode_query(query, query.id))]
    assert sorted([*read_dnstap(BytesIO(each))] for each in found) == expected
    for task in runtime.tasks.values():
        task.cancel()
