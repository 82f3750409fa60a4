"""/v1/replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsdns.cluster.objects import Synced
from tests.recording.recorded import HEADER, write
from tests.server.control.served import BLOCK, Answer, Served, served
from tests.support.cluster.objects import deletes, namespace, service, upserts

pytestmark = pytest.mark.sockets
WEB, DB = service("shop/web", "10.96.7.7"), service("shop/db", "10.96.7.8")
TEXT = BLOCK.replace("manifests shop.yaml", "replay shop.rec paused=true").replace("local in-addr.arpa {", "local:PORT in-addr.arpa:PORT {")  # fmt: skip


@pytest.fixture(autouse=True)
def _recording() -> None:
    write(Path("shop.rec"), [*upserts(namespace("shop"), WEB), Synced()], upserts(DB), deletes(WEB))


async def command(server: Served, body: Any) -> Answer:
    return await server.get("/v1/replay", "POST", json.dumps(body).encode())


async def test_commands() -> None:
    """What a step changes is answered when it returns."""
    async with served(TEXT) as server:
        ask = server.reloadable.ask
        at_first = {
            "file": "shop.rec", "recorded": HEADER.began, "state": "paused", "speed": 1.0, "at": 0.0, "end": 9.0,
            "applied": 0, "changes": 2, "objects": 2, "problem": "",
        }  # fmt: skip
        assert (await server.get("/v1/replay")).lines == [at_first]
        assert await ask("web.shop.svc.cluster.local")
        stepped = {**at_first, "applied": 1, "at": 1.0, "objects": 3}
        assert (await command(server, {"command": "step"})).lines == [stepped]
        assert [str(each) for each in server.block.store.services.values] == ["(b'shop', b'web')", "(b'shop', b'db')"]  # fmt: skip
        faster = {**stepped, "speed": 8.0}
        assert (await command(server, {"command": "speed", "speed": 8})).lines == [faster]
        (running,) = (await command(server, {"command": "run"})).lines
        assert running["state"] == "running"
        (paused,) = (await command(server, {"command": "pause"})).lines
        assert (paused["state"], paused["at"] >= 1.0) == ("paused", True)
        (over,) = (await command(server, {"command": "step", "count": 9})).lines
        assert (over["state"], over["applied"], over["objects"]) == ("over", 2, 2)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"command": "stop"}, '"stop" is not a command of a replay; did you mean "step"?'),
        ({"command": "rewind"}, '"rewind" is not a command of a replay; there are pause, run, step, speed'),
        ({"command": "step", "count": 0}, "step takes a number of changes from 1 to 1000000, not 0"),
        ({"command": "pause", "count": 1}, "pause takes no count; step does"),
        ({"command": "run", "speed": 1}, "run takes no speed; speed does"),
        ({"command": "speed"}, "speed takes a number from 0, for no waiting, to 1000000"),
        ({"command": "speed", "speed": -1}, "speed takes a number from 0, for no waiting, to 1000000"),
        ({}, 'a command is {"command": "step", "count": 1}: Object missing required field `command`'),
    ],
)  # fmt: skip
async def test_commands_that_are_none(body: Any, error: str) -> None:
    async with served(TEXT) as server:
        found = await command(server, body)
        assert (found.status, found.lines) == (400, [{"error": error}])
